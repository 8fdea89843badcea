"""`rover sql` and `rover log` as a person types them: forms of output, words, refusals."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import SCRIPT, environment, refused, rover, script, state
from store_samples import add, edit, git, new_store

from rover.cli.stores import IN_MEMORY
from rover.ops.history import read_words
from rover.sandbox.bubblewrap import find_bwrap
from rover_store.errors import NotFound, SandboxError
from rover_store.history.log_select import Filter
from rover_store.index.views import VIEWS
from rover_store.store import Store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    store = new_store(tmp_path)
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two", 'Say "x, y".\n')
    edit(store, "one", {"task/instruction.md": b"Other."})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    return tmp_path


ODD = (
    "SELECT 1 AS a, 'x,\"y\"' AS b, NULL AS c, 'two\nlines' AS d, 0.5 AS a, x'00ff' AS e"
    " UNION ALL SELECT 2, 'é', 3, '', 1e9, 4"
)


def test_csv_is_that_of_rfc_4180(home: Path) -> None:
    said = script("sql", ODD, "--csv", cwd=home)
    assert said.out == 'a,b,c,d,a,e\r\n1,"x,""y""",,"two\nlines",0.5,00ff\r\n2,é,3,,1000000000.0,4\r\n'


def test_json_is_a_stream(home: Path) -> None:
    said = rover("sql", ODD, "--json")
    assert [json.loads(line) for line in said.out.splitlines()] == [
        {"a": 1, "b": 'x,"y"', "c": None, "d": "two\nlines", "a_2": 0.5, "e": "00ff"},
        {"a": 2, "b": "é", "c": 3, "d": "", "a_2": 1e9, "e": 4},
    ]
    assert rover("sql", "SELECT 9e999 AS x, -9e999 AS y", "--json").out == '{"x": null, "y": null}\n'


def test_a_table_fits(home: Path) -> None:
    said = rover("sql", ODD)
    assert said.out.splitlines()[2].split() == ["1", 'x,"y"', "-", "two\\nlines", "0.5", "00ff"]
    wide = rover("sql", "SELECT *, hex(zeroblob(5000)) AS long FROM packages")
    assert max(len(line) for line in wide.out.splitlines()) <= 80
    assert len(wide.out) < 20_000
    many = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < 1500) SELECT x FROM r"
    assert rover("sql", many).err == "the first 1000 rows; --limit 0 shows all\n"
    assert len(rover("sql", many, "--limit", "0").out.splitlines()) == 1502
    assert rover("sql", many, "--limit", "2", "--csv").out == "x\r\n1\r\n2\r\n"


def test_where_the_query_comes_from(home: Path) -> None:
    (home / "query.sql").write_text("\ufeffSELECT name FROM packages WHERE name > ? -- a comment\n", "utf-8")
    assert rover("sql", "--file", "query.sql", "one", "--csv").out == "name\r\ntwo\r\n"
    done = subprocess.run(
        [*SCRIPT, "sql", "-", "--json"], input="SELECT count(*) AS n FROM commits;\n", text=True, cwd=home,
        env=environment(), capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == '{"n": 3}\n'
    assert rover("sql", "SELECT :a || :b AS x", "--param", "a=1=", "--param", ":b=z", "--csv").out == "x\r\n1=z\r\n"
    numbers = "SELECT typeof(?) AS a, typeof(?) AS b, typeof(?) AS c, typeof(?) AS d"
    assert rover("sql", numbers, "5", "05", "0.5", "five", "--csv").out == "a,b,c,d\r\ninteger,text,real,text\r\n"


@pytest.mark.parametrize(
    ("words", "what"),
    [((), "empty query"), (("SELECT * FROM missing",), "no such table: missing"),
     (("DELETE FROM packages",), "SELECT alone"),
     (("SELECT 1", "--csv", "--json"), "one of them"), (("SELECT ?", "1", "--param", "a=1"), "one of them"),
     (("SELECT :a", "--param", "a"), "not NAME=VALUE"), (("--file", "missing.sql"), "missing.sql: No such file"),
     (("--file", "odd.sql"), "odd.sql: not UTF-8"), (("SELECT 1", "--database"), "no second database"),
     (("SELECT * FROM history",), "history is no view"), (("SELECT 1", "--timeout", "-1"), "--timeout")],
)  # fmt: skip
def test_sql_refuses(words: tuple[str, ...], what: str, home: Path) -> None:
    (home / "odd.sql").write_bytes(b"SELECT '\xff'")
    before = state(home)
    refused(rover("sql", *words), 2, what)
    assert state(home) == before


def test_a_question_that_takes_too_long(home: Path) -> None:
    endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
    refused(rover("sql", endless, "--timeout", "0.2"), 2, "no answer within 0.2 s")


def test_the_views_are_listed(home: Path) -> None:
    assert list(json.loads(rover("sql", "--tables", "--json").out)) == list(VIEWS)
    assert all(name in rover("sql", "--tables").out for name in VIEWS)
    columns = json.loads(rover("sql", "--schema", "--json").out)
    assert columns == {name: dict(view.columns) for name, view in VIEWS.items()}
    assert "commit_id         the commit" in rover("sql", "--schema").out


def test_reading_sql_imports_nothing_slow(home: Path) -> None:
    code = (
        "import sys; from rover.cli.main import run; run(sys.argv[1:]);"
        "print([m for m in ('sqlmodel', 'sqlalchemy', 'pydantic', 'networkx', 'dulwich', 'rich') if m in sys.modules])"
    )
    for words in (["sql", "SELECT 1"], ["log", "one"], ["log", "HEAD~1..HEAD", "--stat"]):
        start = [sys.executable, "-c", code, *words]
        done = subprocess.run(start, capture_output=True, text=True, cwd=home, check=True)
        assert done.stdout.splitlines()[-1] == "[]", words


def test_reindex_into_another_database(home: Path) -> None:
    url = f"sqlite:///{home / 'copy.db'}"
    said = json.loads(rover("reindex", "--to", url, "--json").out)
    assert (said["database"], said["fresh"], said["rows"]["history"]) == (url, True, 3)
    db = sqlite3.connect(home / "copy.db")
    assert db.execute("SELECT name FROM packages ORDER BY 1").fetchall() == [("one",), ("two",)]
    db.close()
    assert rover("reindex", "--to", url).out == f"{url} shows 3 commits\n"
    (home / ".rover/config.toml").write_text(f'format = 1\ndatabase = "{url}"\n')
    query = "SELECT name FROM packages WHERE name = ?"
    assert rover("sql", query, "two", "--database", "--csv").out == "name\r\ntwo\r\n"
    refused(rover("sql", "DROP TABLE meta", "--database"), 2, "SQL: ")
    refused(rover("reindex", "--to", "postgresql+psycopg://me:secret@127.0.0.1:1/x"), 3, "me:***@127.0.0.1")
    refused(rover("reindex", "--to", "nonsense"), 2)


@pytest.mark.parametrize("content", [None, b"", b"garbage" * 1000, "old", "whole"])
def test_a_medium_that_is_read_only(content: bytes | str | None, home: Path) -> None:
    """The index is read from a copy where there is one, else built in memory, and the command says so."""
    try:
        start = [find_bwrap(), "--dev-bind", "/", "/", "--ro-bind", str(home), str(home)]
        subprocess.run([*start, "true"], capture_output=True, check=True)
    except (SandboxError, OSError, subprocess.CalledProcessError):
        pytest.skip("this machine cannot mount")
    path = home / ".rover/index.db"
    rover("log")
    if content == "old":
        db = sqlite3.connect(path)
        db.execute("UPDATE meta SET value = '0' WHERE key = 'version'")
        db.commit()
        db.close()
    elif content != "whole":
        for file in path.parent.glob("index.db*"):
            file.unlink()
        if isinstance(content, bytes):
            path.write_bytes(content)
    for words, out in ((["log", "--oneline"], 3), (["sql", "SELECT name FROM packages", "--csv"], 3)):
        done = subprocess.run(
            [*start, *SCRIPT, *words], cwd=home, env=environment(), capture_output=True, text=True, check=False
        )
        assert (done.returncode, len(done.stdout.splitlines())) == (0, out), done
        # a file that another process holds open can be read as it is
        assert done.stderr in ((f"{IN_MEMORY}\n", "") if content == "whole" else (f"{IN_MEMORY}\n",))


# --- log -------------------------------------------------------------------------------------------------
def test_log_in_its_forms(home: Path) -> None:
    head = Store.open(home).resolve()
    assert rover("log", "--oneline", "--limit", "1").out == f"{head[:10]} Edit one\n"
    assert rover("log", "--stat", "--limit", "1").out == f"{head[:10]} Edit one\n  C one/task/instruction.md\n"
    (entry,) = (json.loads(line) for line in rover("log", "one", "--json", "--limit", "1", "--stat").out.splitlines())
    assert (entry["id"], [c["node"] for c in entry["changes"]]) == (head, ["one", "one/task"])
    assert [f["path"] for f in entry["files"]] == ["one/task/instruction.md"]
    assert rover("log", "files/shared").code == 2
    assert "files/shared" in rover("log", "resources/files/shared").out
    assert rover("log", "--resource", "shared", "--oneline").out.split(" ", 1)[1] == "Add one\n"
    assert rover("log", "-c", "task", "one", "--oneline").out.count("\n") == 2
    assert rover("log", "HEAD~1..", "--oneline").out == f"{head[:10]} Edit one\n"
    assert rover("log", "--", "one/task/instruction.md").out.count("\n") == 4
    assert rover("log", "--since", "2999-01-01") == (0, "", "no commits\n")
    assert rover("log", "--until", "2 weeks ago", "--oneline").out.count("\n") == 3
    assert rover("log", "--author", "nobody", "--json") == (0, "", "")


def test_a_long_log_has_one_header(home: Path) -> None:
    store = Store.open(home)
    with store.write() as tx:
        for i in range(450):
            tx.commit(f"{i}", parents=[tx.ref("refs/heads/main") or ""])
    lines = rover("log").out.splitlines()
    assert len(lines) == 455
    assert sum(line.startswith("commit") for line in lines) == 1


@pytest.mark.parametrize(
    "words",
    [("--since", "someday"), ("--until", "2026-13-01"), ("--grep", "("), ("--author", "["), ("--trailer", "=x"),
     ("nothing",), ("nothing/task",), ("one", "--component", "tasks"), ("main..nothing",), ("..",),
     ("main", "--rev", "main"), ("main...main", "one...two")],
)  # fmt: skip
def test_log_refuses(words: tuple[str, ...], home: Path) -> None:
    refused(rover("log", *words), 2)


def test_words(home: Path) -> None:
    store = Store.open(home)
    store.create_branch("two")  # a package's name wins
    store.create_branch("feature/x")
    with store.write() as tx:
        commit = tx.detached_commit("Case", files={"case.json": b"{}"})
        tx.promote("main", commit, expect=store.resolve())
    read = {
        "one": ("", ("one",), ()), "two": ("", ("two",), ()), "t*": ("", ("t*",), ()), "main": ("main", (), ()),
        "main~1": ("main~1", (), ()), "feature/x": ("feature/x", (), ()), "^main": ("^main", (), ()),
        "main..feature/x": ("main..feature/x", (), ()), "one/task": ("", (), ("one/task",)),
        "case.json": ("", (), ("/case.json",)), "*/task": ("", (), ("*/task",)),
        "resources/files/shared": ("", (), ("resources/files/shared",)),
    }  # fmt: skip
    for word, wanted in read.items():
        revs, found = read_words(store, [word], Filter())
        assert (revs, found.nodes, found.paths) == wanted, word
    assert rover("log", "case.json", "--oneline").out.split(" ", 1)[1] == "Case\n"
    for word in ("nothing", "z*", "nothing/task", "[", "..*"):
        with pytest.raises(NotFound, match="package not found"):
            read_words(store, [word], Filter())


def test_a_package_of_another_branch_is_found(home: Path) -> None:
    store = Store.open(home)
    git(store.git, "branch", "side")
    store.switch("side")
    add(store, "three", "Third.")
    store.switch("main")
    for file in store.folder.glob("index.db*"):
        file.unlink()
    assert rover("log", "three", "--rev", "side", "--oneline").out.split(" ", 1)[1] == "Add three\n"
    assert rover("log", "side", "three", "--oneline").out.split(" ", 1)[1] == "Add three\n"


def test_a_query_that_never_ends_is_not_read_to_its_end(home: Path) -> None:
    refused(rover("sql", "--file", "/dev/zero"), 2, "longer than 1000000 bytes")
    Path("long.sql").write_text("SELECT 1 " + " " * 1_000_000)
    refused(rover("sql", "--file", "long.sql"), 2, "long.sql: longer than 1000000 bytes")


def test_a_name_of_a_column_prints_no_control_characters(home: Path) -> None:
    said = rover("sql", "SELECT 1 AS \"\x1b[31m\", 2 AS b")
    assert "\x1b" not in said.out
    assert "\\x1b[31m" in said.out


def test_numbers_beyond_what_the_machine_counts(home: Path) -> None:
    for form in ([], ["--json"], ["--csv"]):
        assert rover("sql", "SELECT 7 AS a", "--limit", "1" + "0" * 30, *form).code == 0
    for option in ("--grep", "--author"):
        refused(rover("log", option, "a{9999999999999999999999}"), 2, "not a regular expression")


def test_a_commit_of_many_packages_counts_them_and_a_resource_is_shown(home: Path) -> None:
    store = Store.open(home)
    with store.write("many") as tx:
        for i in range(9):
            tx.set_package(f"package-of-many-{i}", store.package("one").tree)
        tx.commit("Add nine")
    assert rover("log", "--limit", "1").out.splitlines()[2].endswith("  Add nine  9 packages")
    assert "resource.json" in rover("show", "files/shared").out
    assert rover("show", "files/nothing").err.startswith("rover: path not found: HEAD:resources/files/nothing")
