"""Tasks made to keep a reader busy, or to grow without end: read at once, or refused at once."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import harbor_tasks
import pytest

from rover.harness.mcp.records import problems
from rover.ops.import_ import ImportRequest, import_
from rover.port.harbor.about import Origin
from rover.port.harbor.digest import content_digest
from rover.port.harbor.find import find
from rover.port.harbor.gitignore import MOST_RULES, left_out, rules_of
from rover.port.harbor.package import instruction_of, make
from rover.port.harbor.restore import restore
from rover.port.harbor.rewards import keys_of
from rover.port.harbor.tree import Bounds, Item, check_bounds, read_folder, relinked, resolved
from rover_store.errors import PackageError
from rover_store.records import Harness
from rover_store.store import Store

#: CPU seconds; what grows faster than its input takes minutes here
MOST = 4.0


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < MOST


def task(**changes: bytes) -> dict[str, Item]:
    """A sound task with files added; `__` is a slash, `_DOT_` a dot."""
    files = {
        "task.toml": b'[task]\nname = "acme/x"\n', "instruction.md": b"Do it.\n",
        "environment/Dockerfile": b"FROM debian\nWORKDIR /app\n", "tests/test.sh": b"echo 1\n",
    }  # fmt: skip
    files |= {name.replace("__", "/").replace("_DOT_", "."): data for name, data in changes.items()}
    return {path: Item(data) for path, data in files.items()}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('json.dump({"a": 1, "b c": x}, open("reward.json"))', ("a", "b c")),
        ("{'a': [1], 'b': f(2),} > reward.json", ("a", "b")),
        ('{\\"a\\": $A} > reward.json', ("a",)),
        ('{"a": "text"} > reward.json', ("reward",)),
        ("reward.json {" + ", ".join(f'"m{n}": {n}' for n in range(28)) + ', "l": x["y"]}', ("reward",)),
        ("reward.json {" + '"a": ' + '"a":           ' * 25, ("reward",)),
        ('reward.json {"a":' + " " * 900_000 + '"}', ("reward",)),
        ('reward.json {"' + "a " * 400_000 + "}", ("reward",)),
        ("reward.json" + "{" * 900_000, ("reward",)),
        ("reward.json" * 40_000 + '{"a": 1}' * 60_000, ("a",)),
    ],
)  # fmt: skip
def test_keys_of_rewards(text: str, keys: tuple[str, ...]) -> None:
    assert keys_of(task(tests__x_DOT_py=text.encode()), {})[0] == keys


def test_a_canary_of_any_length() -> None:
    for text in ("<!--" + "canary" * 100_000, "# " + "canary " * 100_000 + "\nDo it.\n"):
        head, rest, _ = instruction_of(task(instruction_DOT_md=text.encode()), {})
        assert head + rest == text
    assert instruction_of(task(instruction_DOT_md=b"<!-- Canary 1 -->\n\nDo it.\n"), {})[0] == "<!-- Canary 1 -->\n\n"


#: as pathspec 1.1 has it, which Harbor asks
IGNORED = [
    ("*.log", "a/b.log", True),
    ("a", "a/b/c", True),
    ("a/", "a", False),
    ("/b", "a/b", False),
    ("a/*", "a/b", True),
    ("a/*", "a/b/c", False),
    ("a/**", "a/b/c", True),
    ("**/*", "a", True),
    ("/**/", "a", False),
    ("b*/**/", "build/x", True),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/x/y/b", True),
    ("*\n!keep", "x/keep", False),  # a file of a folder that is left out can be kept
    ("x\n!keep", "x/keep", False),
    ("[!a]b", "ab", False),
    ("\\!x", "!x", True),
    ("a\\ ", "a ", True),
    ("# a", "# a", False),
]


@pytest.mark.parametrize(("rules", "path", "out"), IGNORED)
def test_a_gitignore(rules: str, path: str, out: bool) -> None:
    found = rules_of(rules)
    assert found is not None
    assert left_out(found, [path]) == ({path} if out else set())


def test_a_gitignore_that_nobody_can_judge() -> None:
    evil = {f"tests__{'a' * 250}": b"x", f"tests__{'b/' * 30}c": b"x"}
    for rules in ("*a" * 30 + "b\n", "**/" * 30 + "b\n", "a**" * 30 + "\n"):
        assert content_digest(task(_DOT_gitignore=rules.encode(), **evil)).startswith("sha256:")
    for rules in ("r\n" * (MOST_RULES + 1), "a" * 5000):
        assert content_digest(task(_DOT_gitignore=rules.encode(), **evil)) == ""
    made = make(task(_DOT_gitignore=b"r\n" * 200_000), Origin("x"))
    assert b'"digest"' not in made.files["package.json"]


def test_lines_of_any_length() -> None:
    for script in ('echo "' + "a" * 900_000 + '"\n', "a;" * 400_000, "'a " * 300_000, "pip " + "-a " * 300_000):
        assert make(task(tests__test_DOT_sh=script.encode()), Origin("x")).name == "acme-x"
    docker = b"FROM debian\nENV A=" + b"a" * 70_000 + b"\n"
    with pytest.raises(PackageError, match="Dockerfile: line 2: is longer than 64 KB"):
        make(task(environment__Dockerfile=docker), Origin("x"))


def test_many_keys() -> None:
    keys = b"".join(b"k%d = 1.0\n" % n for n in range(5_000))
    step = b'[task]\nname = "acme/x"\n[[steps]]\nname = "s"\n[steps.min_reward]\n' + keys
    made = make(task(task_DOT_toml=step, steps__s__instruction_DOT_md=b"x"), Origin("x"))
    assert made.files["task/contract.json"].count(b'"weight": 1.0') == 5_000


def test_links_count_as_what_they_stand_for(tmp_path: Path) -> None:
    small = Bounds(task_bytes=1000)
    files = {"a": Item(b"x" * 300), "d/b": Item(b"y" * 300)}
    assert len(resolved(files, {"l": "a"}, small)) == 3
    for links in ({"l": "a", "m": "a"}, {"l": "a", "e": "d"}):
        with pytest.raises(PackageError, match="its links stand for more than"):
            resolved(files, links, small)


def test_links_to_many_folders() -> None:
    files = {f"d{n}/x": Item(b"x") for n in range(9_000)}
    links = {f"l{n}": f"d{n}" for n in range(9_000)}
    found = resolved(files, links)
    assert relinked({path: replace(item, link="") for path, item in found.items()}, links) == found


def test_an_archive_of_very_many_tasks(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number in range(1_000):
            for path, item in task().items():
                info = tarfile.TarInfo(f"t{number}/{path}")
                info.size = len(item.data)
                archive.addfile(info, io.BytesIO(item.data))
    places = list(find(tmp_path / "a.tar"))
    assert [len(place.read()) for place in places] == [4] * 1_000


def test_a_task_in_an_archive_is_bounded_as_one_in_a_folder(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="holds more than 20000 files"):
        check_bounds({f"{n}": Item(b"") for n in range(20_001)})
    with pytest.raises(PackageError, match="holds more than 1 MB"):
        check_bounds({"a": Item(b"x" * 700_000), "b": Item(b"x" * 700_000)}, Bounds(task_bytes=1 << 20))


def test_links_of_an_archive_to_what_holds_a_task(tmp_path: Path) -> None:
    """A task is taken where it lies, not again through a link to it."""
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for path, item in task().items():
            info = tarfile.TarInfo(f"t/{path}")
            info.size = len(item.data)
            archive.addfile(info, io.BytesIO(item.data))
        for name, target in (("all", "t"), ("t/tests/here", "../environment"), ("more/all", "../t")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    (place,) = find(tmp_path / "a.tar")
    assert place.path == "t"
    assert place.read()["tests/here/Dockerfile"].link == "tests/here\0../environment"


def test_a_dataset_that_is_larger_than_any(tmp_path: Path) -> None:
    with (tmp_path / "dataset.toml").open("wb") as file:
        file.truncate(8 << 30)
    with pytest.raises(PackageError, match=r"dataset\.toml: is larger than 16 MB"):
        list(find(tmp_path))


UNKEPT = [
    ("/app/.git/x", "a git folder cannot be part of a package"),
    ("/app/a\0b", "NUL"),
    ("/app/" + "x/" * 600 + "y", "nested deeper"),
    ("/app/" + "x" * 300, "longer than 255 bytes"),
]


@pytest.mark.parametrize(("target", "why"), UNKEPT)
def test_files_of_an_image_that_no_workspace_can_hold(target: str, why: str) -> None:
    docker = f"FROM debian\nWORKDIR /app\nCOPY a.txt /app/a\nCOPY a.txt {target}\n"
    made = make(task(environment__Dockerfile=docker.encode(), environment__a_DOT_txt=b"1"), Origin("x"))
    assert made.files["context/files/a"] == b"1"
    assert [need for need in made.needs if need.startswith("image") and why in need]


def test_what_is_copied_to_a_folder_lies_in_it() -> None:
    copies = ("a.txt b/c.txt /app/x/", "a.txt /app", "a.txt /app/x", "a.txt y")
    docker = b"FROM debian\nWORKDIR /app\n" + b"".join(b"COPY %s\n" % one.encode() for one in copies)
    files = {"environment__Dockerfile": docker, "environment__a_DOT_txt": b"1", "environment__b__c_DOT_txt": b"2"}
    made = make(task(**files), Origin("x"))
    found = {path: data for path, data in made.files.items() if path.startswith("context/files/")}
    assert found == {f"context/files/{p}": d for p, d in
                     (("a.txt", b"1"), ("x/a.txt", b"1"), ("x/c.txt", b"2"), ("y", b"1"))}  # fmt: skip
    clash = b"FROM debian\nWORKDIR /app\nCOPY a.txt /app/y\nCOPY a.txt /app/y/z\n"
    with pytest.raises(PackageError, match="Dockerfile: makes /app/y both a file and a folder"):
        make(task(**{**files, "environment__Dockerfile": clash}), Origin("x"))


@pytest.mark.parametrize("line", ["ENV =x", 'ENV A="a\0b"'])
def test_variables_of_an_image_that_no_process_can_have(line: str) -> None:
    with pytest.raises(PackageError, match="environment/Dockerfile: line 3: "):
        make(task(environment__Dockerfile=f"FROM debian\nWORKDIR /app\n{line}\n".encode()), Origin("x"))
    sound = b"FROM debian\nWORKDIR /app\nENV PATH=/app A=\n"
    assert make(task(environment__Dockerfile=sound), Origin("x")).name == "acme-x"


@pytest.mark.parametrize("name", [b"\xff", b"a\nb", b"a\\b"])
def test_folders_that_no_package_can_name(name: bytes, tmp_path: Path) -> None:
    for folder in (name, b"sound"):
        for path, item in task(task_DOT_toml=b'version = "1.0"\n').items():
            file = os.fsencode(tmp_path) + b"/in/" + folder + b"/" + path.encode()
            os.makedirs(os.path.dirname(file), exist_ok=True)
            Path(os.fsdecode(file)).write_bytes(item.data)
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    report = import_(store, ImportRequest("harbor", tmp_path / "in", keep_going=True))
    assert (report.count("refused"), report.count("added")) == (1, 1)
    assert all(row.source.encode() and row.reason.isprintable() for row in report.rows)


def test_a_dataset_that_lists_what_is_not_there(tmp_path: Path) -> None:
    harbor_tasks.write(harbor_tasks.tasks()["copies"], tmp_path / "in/copies")
    digest = content_digest(read_folder(tmp_path / "in/copies"))
    (tmp_path / "in/dataset.toml").write_text("".join(
        f'[[tasks]]\nname = "{name}"\ndigest = "{digest}"\n' for name in ("acme/gone", "acme/copies")
    ))  # fmt: skip
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    with pytest.raises(PackageError, match=r"^dataset.toml: tasks.0.name: 'acme/gone' does not lie beside it"):
        import_(store, ImportRequest("harbor", tmp_path / "in"))
    assert store.packages() == []
    report = import_(store, ImportRequest("harbor", tmp_path / "in", keep_going=True))
    assert [row.outcome for row in report.rows] == ["refused", "added"]


def test_tool_servers_that_case_alone_tells_apart() -> None:
    server = '[[environment.mcp_servers]]\nname = "%s"\ntransport = "stdio"\ncommand = "x"\n'
    names = ("a", "A", "a-2", "My server", "my-server")
    toml = '[task]\nname = "acme/x"\n' + "".join(server % name for name in names)
    made = make(task(task_DOT_toml=toml.encode()), Origin("x"))
    found = Harness.load(made.files["harness/harness.json"], "harness.json")
    assert [one.name for one in found.mcp_servers or ()] == ["a", "a-2", "a-2-2", "my-server", "my-server-2"]
    assert not list(problems(found))
    assert restore(made.files)["task.toml"].data == toml.encode()


def test_a_dockerfile_whose_variables_no_process_can_have() -> None:
    docker = "FROM debian\nWORKDIR /app\n" + f"ENV A={'x' * 20_000}\n" + "".join(f"ENV A{n}=$A\n" for n in range(60))
    with pytest.raises(PackageError, match="sets more than 976 KB of variables"):
        make(task(environment__Dockerfile=docker.encode()), Origin("x"))
