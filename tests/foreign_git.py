"""What another git may have put into a repository: objects of any bytes, and histories of any shape.

`write_object` writes a loose object as it is told, valid or not. `random_history` fills a repository through
`git fast-import`: merges, octopuses, clocks that go backwards, tags of every kind, names that are both tag and branch.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

WORDS = ("fix", "repair", "contract", "(x)", "Ümlaut", "a..b", "main", "tidy")
PERSON = "Other <other@example.org>"
Entry = tuple[str, bytes, str]  # mode as git writes it, name, id


def write_object(git: Path, kind: str, data: bytes) -> str:
    """Write a loose object and return its id. Nothing is checked."""
    raw = b"%s %d\0" % (kind.encode(), len(data)) + data
    name = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
    path = git / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_bytes(zlib.compress(raw, 1))
    return name


def tree_bytes(entries: Iterable[Entry]) -> bytes:
    """A tree object with these entries in this order, however wrong."""
    return b"".join(f"{mode} ".encode() + name + b"\0" + bytes.fromhex(i) for mode, name, i in entries)


def write_tree(git: Path, entries: Iterable[Entry]) -> str:
    return write_object(git, "tree", tree_bytes(entries))


def write_commit(git: Path, tree: str, parents: Sequence[str] = (), time: int = 1, message: str = "x") -> str:
    lines = [f"tree {tree}", *(f"parent {p}" for p in parents)]
    lines += [f"author {PERSON} {time} +0000", f"committer {PERSON} {time} +0000", "", message, ""]
    return write_object(git, "commit", "\n".join(lines).encode())


def write_tag(git: Path, target: str, kind: str, name: str) -> str:
    text = f"object {target}\ntype {kind}\ntag {name}\ntagger {PERSON} 1 +0000\n\nTag {name}\n"
    return write_object(git, "tag", text.encode())


def set_ref(git: Path, name: str, value: str) -> None:
    """Write a ref by hand, whatever it names."""
    path = git / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value + "\n")


def random_history(git: Path, seed: int, commits: int = 30) -> list[str]:
    """Fill an empty bare repository and return its commits, parents first."""
    dice = random.Random(seed)
    lines: list[str] = []
    marks: list[int] = []
    for mark in range(1, commits + 1):
        lines += _commit(dice, mark, marks)
        marks.append(mark)
    for i in range(4):
        name = dice.choice(("main", f"topic/{i}", f"side-{i}", "both"))
        lines += [f"reset refs/heads/{name}", f"from :{dice.choice(marks)}", ""]
    lines += ["reset refs/heads/main", f"from :{marks[-1]}", ""]
    lines += ["reset refs/tags/both", f"from :{dice.choice(marks)}", ""]
    lines += ["tag v1", f"from :{dice.choice(marks)}", f"tagger {PERSON} 1 +0000", *_data("One"), ""]
    (git / "marks").unlink(missing_ok=True)
    subprocess.run(
        ["git", "fast-import", "--quiet", "--force", f"--export-marks={git}/marks"], cwd=git, check=True,
        input="\n".join(lines).encode(), capture_output=True, timeout=60,
    )  # fmt: skip
    rows = [line.split() for line in (git / "marks").read_text().splitlines()]
    ids = {int(mark[1:]): commit for mark, commit in rows}
    tag = (git / "refs/tags/v1").read_text().strip()
    blob = write_object(git, "blob", b"pointed at\n")
    set_ref(git, "refs/tags/nested", write_tag(git, tag, "tag", "nested"))
    set_ref(git, "refs/tags/of-a-blob", write_tag(git, blob, "blob", "of-a-blob"))
    set_ref(git, "refs/tags/blob", blob)
    return [ids[mark] for mark in marks]


def _commit(dice: random.Random, mark: int, marks: list[int]) -> list[str]:
    parents = []
    if marks and dice.random() > 0.05:
        parents = dice.sample(marks[-8:], min(len(marks), dice.choice((1, 1, 1, 2, 2, 3))))
    time = 1_600_000_000 + dice.choice((mark * 10, mark * 10, dice.randrange(1000)))
    message = " ".join(dice.choices(WORDS, k=3)) + dice.choice(("", "\n\nBody: " + dice.choice(WORDS)))
    lines = [f"reset refs/heads/made-{mark}", f"commit refs/heads/made-{mark}", f"mark :{mark}"]
    lines += [f"committer {PERSON} {time} +0000", *_data(message)]
    lines += [f"{'merge' if i else 'from'} :{p}" for i, p in enumerate(parents)]
    return [*lines, f"M 100644 inline folder/{dice.randrange(3)}.txt", *_data(str(dice.randrange(100))), ""]


def _data(text: str) -> list[str]:
    return [f"data {len(text.encode())}", text]
