"""The frame of the command line: the registry, lazy imports, exit codes, help."""

import importlib
import re
import subprocess
import sys

import pytest

from rover.cli.commands import COMMANDS
from rover.cli.help_topics import TOPICS, laid_out, page
from rover.cli.main import load, run
from rover.cli.output import table

HEAVY = ("pandas", "numpy", "duckdb", "openpyxl", "networkx", "sqlmodel", "sqlalchemy", "dulwich", "openai", "rich")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_registry_and_module_agree(name):
    module = importlib.import_module(f"rover.cli.{COMMANDS[name].module}")
    assert hasattr(module, "command") or hasattr(module, "app")
    assert load(name).name == name


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_an_example_and_json(name, capsys):
    assert run([name, "--help"]) == 0
    text = capsys.readouterr().out
    command = load(name)
    subs = list(getattr(command, "commands", {})) or [None]
    for sub in subs:
        if sub is not None:
            assert run([name, sub, "--help"]) == 0
            text = capsys.readouterr().out
        assert f"Example: rover {name}" in " ".join(text.split()), f"{name} {sub or ''}: no example"
        assert "--json" in text, f"{name} {sub or ''}: no --json"


def test_summaries_fit_80_columns():
    assert all(len(f"  {name:<10}{entry.summary}") <= 80 for name, entry in COMMANDS.items())


@pytest.mark.parametrize("topic", TOPICS)
def test_pages_fit_the_terminal_and_lose_no_word(topic):
    laid = laid_out(page(topic), 80)
    said = re.sub(r"\*\*([^*]+)\*\*", r"\1", page(topic))
    assert laid.split() == re.sub(r"^```.*$", "", said, flags=re.MULTILINE).split()
    assert [line for line in laid.splitlines() if len(line) > 80] == []
    assert "**" not in laid


def test_the_list_of_topics_fits_80_columns(capsys):
    assert run(["help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_line_that_begins_in_bold_goes_on_and_an_entry_hangs():
    assert laid_out("One is **stale**.\n**Unverified** is the other.", 80) == "One is stale. Unverified is the other."
    laid = laid_out("**one** — " + "word " * 20 + "\n**two** — more", 80).splitlines()
    assert [line[:5] for line in laid] == ["one —", "  wor", "two —"]


def test_code_keeps_its_lines_and_two_columns_wrap():
    code = "if x:\n    y = 1  # " + "long " * 20
    laid = laid_out(f"A\n\n```python\n{code}\n```\nB", 80).splitlines()
    assert laid[2:4] == ["    if x:", f"    {code[6:].rstrip()}"]
    laid = laid_out("    first  second    " + "what it is " * 10, 80).splitlines()
    assert len(laid) > 1
    assert all(len(line) <= 80 and line.index("what") >= 21 for line in laid[:1])
    assert all(line.startswith(" " * 21) for line in laid[1:])


def test_undo_says_what_is_back_and_what_is_gone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert [run([*words]) for words in (["init"], ["new", "one"], ["commit", "one"], ["tag", "v1"])] == [0] * 4
    capsys.readouterr()
    assert run(["undo"]) == 0
    assert "  tag v1 is gone" in capsys.readouterr().out
    assert run(["undo"]) == 0
    assert "  tag v1 is back at " in capsys.readouterr().out


def test_no_command_prints_help_and_exits_0(capsys):
    assert run([]) == 0
    assert "Start here" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["nonsense"], ["log", "--no-such-option"], ["help", "nonsense"]])
def test_usage_errors_are_one_line_and_exit_2(words, capsys):
    assert run(words) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[0].startswith("rover: ")
    assert len(lines) <= 2


def test_not_a_store(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    assert run(["log"]) == 2
    assert "rover init" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["log"], ["show", "HEAD"], ["list"]])
def test_read_verbs_import_nothing_heavy(words, tmp_path):
    assert run(["init", str(tmp_path)]) == 0
    code = (
        "import sys; from rover.cli.main import run; run(sys.argv[1:]);"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--store", str(tmp_path), *words], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip().splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize("topic", TOPICS)
def test_topics(topic, capsys):
    assert run(["help", topic]) == 0
    assert capsys.readouterr().out == laid_out(page(topic), 80) + "\n"


def test_topics_name_only_commands_that_exist():
    for topic in TOPICS:
        found = re.findall(r"(?:`|^    )rover ([a-z]+)", page(topic), re.MULTILINE)
        assert [name for name in found if name not in COMMANDS] == [], topic


def test_tables_fit_80_columns():
    rows = [("a" * 50, "b" * 70, "a reason that is long enough to be wrapped below itself " * 3)]
    text = table(rows, ("name", "id", "reason"))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "wrapped" in text


def test_names_are_never_cut_and_reasons_go_below_where_little_room_is_left(monkeypatch):
    reason = "results/row_count_by_clutch_complete.csv does not exist; another one does"
    rows = [("penguins-summarise-0a1b2c3d4e", "verifier_error", "0123456789", "run", reason)]
    lines = table(rows, ("package", "outcome", "rollout", "by", "reason")).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[3:] == [
        "penguins-summarise-0a1b2c3d4e  verifier_error  0123456789  run",
        "    results/row_count_by_clutch_complete.csv does not exist; another one does",
    ]
    monkeypatch.setenv("COLUMNS", "200")
    assert table(rows, ("package", "outcome", "rollout", "by", "reason")).splitlines()[2].endswith(reason)


def test_columns_to_be_copied_wrap_and_lose_nothing():
    field = "deliverables[summary].columns[total_qty].meaning"
    text = table([("a" * 10, field, "b" * 40)], ("id", "field", "value"), whole=(1,))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    at = lines[0].index("field")
    end = lines[0].index("value")
    assert "".join(line[at:end].strip() for line in lines[2:]) == field


def test_tables_show_control_characters():
    assert "\x1b" not in table([("a\x1b[31m\nb",)], ("name",))
