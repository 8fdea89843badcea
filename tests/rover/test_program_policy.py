"""Command policies: how they are named, what their id depends on, what is shown of the machine, what is refused."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest

from rover.policy.installation import ELSEWHERE, installation
from rover.policy.openai import Settings
from rover.policy.program import ProgramPolicy, Spec
from rover.policy.protocol import Policy, PolicyView
from rover.policy.registry import get_policy
from rover_store.errors import HarnessError, UsageError
from rover_store.records import Limits


def venv(folder: Path, source: str = "print(1)\n", *, config: str = "", editable: bool = False) -> Path:
    """A virtual environment with one distribution, as pip lays it out."""
    site = folder / "lib/python3.11/site-packages"
    info = site / "toy_agent-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "toy_agent.py").write_text(source)
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(os.path.realpath(sys.executable))
    script = f"#!{folder}/bin/python\nimport toy_agent\n"
    (folder / "bin/toy").write_text(script)
    (folder / "pyvenv.cfg").write_text(f"home = /somewhere/bin\nversion = 3.11.7\n{config}")
    rows = [row("toy_agent.py", source.encode()), row("../../../bin/toy", script.encode())]
    rows += ["toy_agent-1.0.dist-info/RECORD,,", "__pycache__/toy_agent.cpython-311.pyc,,"]
    if editable:
        (info / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///x"}')
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    return folder


def row(path: str, data: bytes) -> str:
    return f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_same_installation_is_the_same_policy_anywhere(place: Path) -> None:
    here, there = venv(place / "one"), venv(place / "deep/er/two")
    first, second = installation(here), installation(there)
    assert first.id == second.id
    assert (first.folder, first.path) == (str(here), (f"{here}/bin",))
    specs = [(i.folder, Spec((f"{i.folder}/bin/toy", f"--x={i.folder}"))) for i in (first, second)]
    ids = {ProgramPolicy(spec, agent=Path(folder)).id for folder, spec in specs}
    assert len(ids) == 1
    assert ids == {ProgramPolicy(Spec(("{agent}/bin/toy", "--x={agent}")), agent=here).id}
    assert str(place) not in ids.pop()


def test_what_changes_an_installation(place: Path) -> None:
    known = {installation(venv(place / "one")).id}

    def changed(name: str) -> Path:
        return venv(place / name)

    def new(folder: Path) -> bool:
        found = installation(folder).id
        grew = found not in known
        known.add(found)
        return grew

    assert new(venv(place / "other", "print(2)\n"))
    edited = changed("edited") / "lib/python3.11/site-packages/toy_agent.py"
    edited.write_text("print(7)\n")  # as long as before, and later
    os.utime(edited, (2e9, 2e9))
    assert new(place / "edited")
    (changed("gone") / "lib/python3.11/site-packages/toy_agent.py").unlink()
    assert new(place / "gone")
    (changed("loose") / "lib/python3.11/site-packages/extra.pth").write_text("import os\n")
    assert new(place / "loose")
    (changed("newer") / "pyvenv.cfg").write_text("home = /x\nversion = 3.12.1\n")
    assert new(place / "newer")
    touched = changed("touched") / "lib/python3.11/site-packages/toy_agent.py"
    os.utime(touched, (2e9, 2e9))
    cached = place / "touched/lib/python3.11/site-packages/__pycache__"
    cached.mkdir()
    (cached / "toy_agent.cpython-311.pyc").write_bytes(b"x")
    (place / "touched/bin/toy").write_text("#!/anything")
    (place / "touched/bin/activate").write_text("VIRTUAL_ENV=/here")
    assert not new(place / "touched"), "times, compiled files and scripts that an installer wrote are no content"


def test_a_plain_environment_may_hold_an_agent_of_its_own(place: Path) -> None:
    """One that needs the standard library alone: a script beside what `python -m venv` made, or in site-packages."""

    def plain(name: str, script: str = "print(1)\n") -> Path:
        folder = place / name
        (folder / "lib/python3.11/site-packages").mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "bin/python").symlink_to(os.path.realpath(sys.executable))
        (folder / "bin/activate").write_text(f"VIRTUAL_ENV={folder}\n")
        (folder / "bin/mine").write_text(f"#!{folder}/bin/python\nimport agent\n")
        (folder / "pyvenv.cfg").write_text("home = /somewhere/bin\nversion = 3.11.7\n")
        (folder / "agent.py").write_text(script)
        return folder

    first = installation(plain("one"))
    assert first.path == (f"{place}/one/bin",)
    assert first.id == installation(plain("deep/er/two")).id
    known = {first.id, installation(plain("other", "print(2)\n")).id}
    more = plain("more")
    (more / "bin/mine").write_text("#!/bin/sh\n")
    known.add(installation(more).id)
    loose = plain("loose")
    (loose / "lib/python3.11/site-packages/agent.py").write_text("print(1)\n")
    known.add(installation(loose).id)
    beside = venv(place / "beside")
    known |= {installation(beside).id}
    (beside / "agent.py").write_text("print(1)\n")
    known |= {installation(beside).id}
    assert len(known) == 6


def test_the_agent_s_folder_is_there_where_it_is_named(place: Path) -> None:
    for spec in (Spec(("python3", "{agent}/x.py")), Spec(("x",), env={"HOME": "{agent}"})):
        with pytest.raises(UsageError, match="there is none"):
            ProgramPolicy(spec)
        assert ProgramPolicy(spec, agent=venv(place / spec.argv[0])).agent is not None


def test_any_other_folder_is_known_by_its_files(place: Path) -> None:
    folder = place / "agent"
    (folder / "sub").mkdir(parents=True)
    (folder / "main.py").write_text("1")
    (folder / "sub/link").symlink_to("../main.py")
    copy = place / "copy"
    shutil.copytree(folder, copy, symlinks=True)
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__/x.pyc").write_bytes(b"1")
    first = installation(folder)
    assert first.id == installation(copy).id
    (copy / "main.py").chmod(0o755)
    assert first.id != installation(copy).id
    (copy / "main.py").chmod(0o644)
    (copy / "sub/link").unlink()
    assert first.id != installation(copy).id
    if str(place).startswith("/tmp/"):  # where a box has a folder of its own
        assert (first.at, first.shows) == (ELSEWHERE, ((str(folder), ELSEWHERE),))


def test_an_interpreter_of_another_place_is_shown_too(place: Path) -> None:
    folder = venv(place / "agent")
    base = place / "pythons/3.11"
    (base / "bin").mkdir(parents=True)
    shutil.copy(os.path.realpath("/bin/sh"), base / "bin/python3.11")
    (place / "pythons/now").symlink_to("3.11")
    (folder / "bin/python").unlink()
    (folder / "bin/python").symlink_to("python3")
    (folder / "bin/python3").symlink_to(place / "pythons/now/bin/python3.11")
    shown = installation(folder).shows
    assert (str(base), str(place / "pythons/now")) in shown
    assert (str(base), str(base)) in shown


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: p / "gone", "not a folder"),
        (lambda p: Path("/"), "too much would be shown"),
        (lambda p: Path.home(), "too much would be shown"),
        (lambda p: venv(p / "a", editable=True), "editable mode"),
        (lambda p: venv(p / "a", config="include-system-site-packages = true\n"), "the system's packages"),
        (lambda p: _without(venv(p / "a"), "bin/python"), "bin/python is no program"),
        (lambda p: _without(venv(p / "a"), "lib/python3.11/site-packages/toy_agent-1.0.dist-info/RECORD"), "no RECORD"),
        (lambda p: _with(p / "a", ".rover/store.git/HEAD"), "holds a store"),
        (lambda p: _with(p / "a", "sub/.rover/HEAD"), "holds a store"),
    ],
)
def test_what_cannot_be_shown_is_refused(place: Path, make: object, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        installation(make(place))  # type: ignore[operator]
    assert said in caught.value.message


def _without(folder: Path, path: str) -> Path:
    (folder / path).unlink()
    return folder


def _with(folder: Path, path: str) -> Path:
    (folder / path).parent.mkdir(parents=True)
    (folder / path).write_text("x")
    return folder


def test_a_folder_may_not_be_larger_than_one_can_hash(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rover.policy.installation.MOST_BYTES", 1)
    with pytest.raises(UsageError, match="holds more than"):
        installation(_with(_with(place / "a", "sub/x"), "sub/deep/y"))


# --- the spec ----------------------------------------------------------------------------------------------------
def test_what_an_id_depends_on() -> None:
    def policy(words: str = "toy {instruction}", **options: object) -> str:
        made = get_policy(f"command:{words}", **options)  # type: ignore[arg-type]
        assert isinstance(made, Policy)
        return made.id

    base = policy(model="m", server="http://a/v1")
    assert base.startswith("command:toy:")
    assert base == policy(model="m", server="http://b:9/v1", key="other"), "no address and no key"
    others = [
        policy("toy {instruction} -v", model="m"), policy(model="n"),
        policy(model="m", settings=Settings(temperature=0.0)), policy(model="m", settings=Settings(max_tokens=5)),
    ]  # fmt: skip
    assert len({base, *others}) == 5
    settings = [(env, limits) for env in ({}, {"A": "1"}) for limits in ({}, {"cpu_s": 9.0})]
    assert len({ProgramPolicy(Spec(("x",), env=env, limits=limits)).id for env, limits in settings}) == 4


def test_a_file(place: Path) -> None:
    venv(place / "conf/agent")
    (place / "conf/toy.toml").write_text(
        'argv = ["toy", "{instruction}"]\nagent = "agent"\nname = "my toy"\n'
        '[env]\nMODE = "fast"\n[limits]\nprocesses = 99\ncpu_s = 5\nmemory_bytes = 1_000_000\n'
    )
    policy = get_policy("command:conf/toy.toml", model="m")
    assert isinstance(policy, ProgramPolicy)
    assert policy.id.startswith("command:my-toy:")
    assert policy.spec.env == {"MODE": "fast"}
    assert policy.place is not None
    assert str(place / "conf/agent") in dict(policy.place.shows).values()
    bounds = policy.limits(Limits(), 30.0)
    assert (bounds.processes, bounds.cpu_s, bounds.memory_bytes, bounds.open_files) == (99, 5, 1_000_000, 1024)
    assert bounds.wall_s == 30.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("argv = [", "not valid TOML"),
        ("", "argv: not a list of words"),
        ('argv = "toy"', "argv: not a list of words"),
        ("argv = [1]", "argv: not a list of words"),
        ('argv = ["a\\u0000"]', "argv: not a list of words"),
        ('argv = ["x"]\ntypo = 1', "typo: no such key"),
        ('argv = ["x"]\nenv = 1', "env: not a table"),
        ('argv = ["x"]\n[env]\n"A=B" = "1"', "env.A=B: not a variable"),
        ('argv = ["x"]\n[env]\nA = 1', "env.A: not a variable"),
        ('argv = ["x"]\n[limits]\nwall_s = 1', "limits.wall_s: no such limit"),
        ('argv = ["x"]\n[limits]\nprocesses = 0', "limits.processes: not a positive number"),
        ('argv = ["x"]\n[limits]\nprocesses = true', "limits.processes: not a positive number"),
        ('argv = ["x"]\n[limits]\ncpu_s = nan', "limits.cpu_s: not a positive number"),
        ('argv = ["x"]\nname = 3', "name: not a text"),
        ('argv = ["x"]\nagent = "gone"', "not a folder"),
    ],
)
def test_bad_files(place: Path, text: str, said: str) -> None:
    (place / "bad.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        get_policy("command:bad.toml")
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("command:", "needs a program"),
        ("command:a 'b", "no closing quotation"),
        ("command:gone.toml", "gone.toml: no such file"),
        ("command:x", "not an address"),
    ],
)
def test_bad_specs(place: Path, spec: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        get_policy(spec, server="nonsense" if spec == "command:x" else "")


def test_variables_stand_before_the_program(place: Path) -> None:
    spec = Spec.parse("A=1 B='x y' run C=3")
    assert (spec.argv, spec.env) == (("run", "C=3"), {"A": "1", "B": "x y"})
    (place / "own.toml").write_text('argv = ["run"]\n[env]\nA = "0"\nZ = "2"')
    assert Spec.parse("A=1 own.toml").env == {"A": "1", "Z": "2"}
    with pytest.raises(UsageError, match="needs a program"):
        Spec.parse("A=1")


def test_it_is_not_asked_turn_by_turn() -> None:
    with pytest.raises(HarnessError):
        ProgramPolicy(Spec(("x",))).start(PolicyView("", ()), 1)
