"""Tasks made to keep a reader busy, or to grow without end: read at once, or refused at once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from rover.port.harbor.about import Origin
from rover.port.harbor.digest import content_digest
from rover.port.harbor.gitignore import MOST_RULES, left_out, rules_of
from rover.port.harbor.package import instruction_of, make
from rover.port.harbor.rewards import keys_of
from rover.port.harbor.tree import Item

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
