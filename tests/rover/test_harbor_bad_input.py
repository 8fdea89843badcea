"""Malformed and hostile tasks and archives: one line that names file, field and reason, and nothing changed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import harbor_tasks
import pytest

from rover.ops.import_ import ImportRequest, import_
from rover.port.harbor.about import Origin
from rover.port.harbor.archive import is_archive, read_archive
from rover.port.harbor.carried import MANIFEST
from rover.port.harbor.find import find
from rover.port.harbor.package import make
from rover.port.harbor.restore import restore
from rover.port.harbor.tree import Bounds, Item, read_folder, resolved
from rover.port.protocol import Wanted
from rover_store.errors import PackageError, RoverError, UsageError
from rover_store.store import Store

SMALL = Bounds(file_bytes=1 << 20, task_bytes=2 << 20, task_files=50, archive_bytes=2 << 20, archive_files=50)


def base(**changes: str | bytes | None) -> dict[str, Item]:
    """A sound task with some files replaced, added or (None) taken away; `__` is a slash, `_DOT_` a dot."""
    files: dict[str, bytes | None] = {
        "task.toml": b'[task]\nname = "acme/x"\n', "instruction.md": b"Do it.\n",
        "environment/Dockerfile": b"FROM debian\nWORKDIR /app\n", "tests/test.sh": b"echo 1\n",
    }  # fmt: skip
    for name, data in changes.items():
        files[name.replace("__", "/").replace("_DOT_", ".")] = data.encode() if isinstance(data, str) else data
    return {path: Item(data) for path, data in files.items() if data is not None}


TOML = [
    ("x = ", "is not valid TOML"),
    ("[task]\nname = 3\n", "task.name: 3 is not of type 'string'"),
    ('[task]\nname = "no-org"\n', "task.name: 'no-org' is not of the form org/name"),
    ('[task]\nname = "../x"\n', "task.name: '../x' is not of the form org/name"),
    ('[task]\nname = "a/..b"\n', "task.name"),
    ("task = 3\n", "task: 3"),
    ('[verifier]\ntimeout_sec = "long"\n', "verifier.timeout_sec: 'long' is not of type 'number'"),
    ("[environment]\ncpus = true\n", "environment.cpus: True"),
    ('[environment]\nnetwork_mode = "full"\n', "environment.network_mode: 'full' is not one of"),
    ('[environment]\nallowed_hosts = ["a.org"]\n', "environment.allowed_hosts: is for network_mode = 'allowlist'"),
    ("[environment]\nenv = {A = 1}\n", "environment.env.A: 1 is not of type 'string'"),
    ('[[environment.mcp_servers]]\nname = "x"\ntransport = "stdio"\n', "mcp_servers.0: a server with"),
    ('[[environment.mcp_servers]]\ntransport = "tcp"\n', "environment.mcp_servers.0"),
    ('[[steps]]\nname = "../up"\n', "steps.0.name: '../up' cannot be the name of a folder"),
    ('[[steps]]\nname = "CON"\n', "steps.0.name: 'CON' cannot be the name of a folder"),
    ('[[steps]]\nname = "a"\n[[steps]]\nname = "A"\n', "steps.1.name: 'A' is there twice"),
    ("[[steps]]\n", "steps.0: 'name' is a required property"),
    ('artifacts = ["/a/../b"]\n', "artifacts.0.source: '/a/../b' holds `..`"),
    ('multi_step_reward_strategy = "best"\n', "multi_step_reward_strategy: 'best' is not one of"),
    ('[environment]\nmemory = "lots"\n', "environment.memory: 'lots' is no size, as 2G"),
    ('[environment]\nmemory = "2G"\nmemory_mb = 5\n', "environment.memory: '2G' is not 5 MB, as memory_mb says"),
    ("x" + "=[" * 300 + "]" * 300 + "\n", ""),
    ("a" + ".a" * 60 + " = 1\n", "is nested too deeply"),
    ("a = 1\nb" + ".a" * 200 + " = 1\n", "line 2: a key has too many parts"),
    ("[environment]\nmemory = '" + "9" * 400 + "G'\n", "environment.memory: '999"),
    ("[environment]\ncpus = 0x" + "f" * 1000 + "\n", "environment.cpus: is larger than a number of TOML can be"),
    ("[agent]\ntimeout_sec = 0x" + "f" * 1000 + "\n", "agent.timeout_sec: is larger than"),
    ("[metadata]\nx = [0x" + "f" * 90_000 + "]\n", "metadata.x.0: is larger than"),
    ('[environment.env]\n"a=b" = "x"\n', "environment.env: 'a=b' is no name of a variable"),
    ('[environment.env]\n"" = "x"\n', "environment.env: '' is no name of a variable"),
    ('[verifier.env]\nA = "x\\u0000"\n', "verifier.env: A holds a NUL"),
    ('[environment.env]\nA = "' + "x" * 200_000 + '"\n', "environment.env: A is larger than a variable may be"),
    ('[[environment.mcp_servers]]\nname = "x"\ntransport = "stdio"\ncommand = "\\u0000"\n', "holds a NUL"),
    ("a = 1\na = 2\n", "is not valid TOML"),
    ("# " + "x" * (5 << 20), "is larger than 1 MB"),
]


@pytest.mark.parametrize(("text", "said"), TOML, ids=[str(n) for n in range(len(TOML))])
def test_a_bad_task_toml_is_one_line(text: str, said: str) -> None:
    with pytest.raises(PackageError) as caught:
        make(base(task_DOT_toml=text), Origin("x"))
    assert caught.value.file == "task.toml"
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task_DOT_toml": None}, "task.toml: missing"),
        ({"task_DOT_toml": b"\xff"}, "task.toml: is not UTF-8 at byte 0"),
        ({"instruction_DOT_md": None}, "instruction.md: missing"),
        ({"instruction_DOT_md": "  \n"}, "instruction.md: is empty"),
        ({"instruction_DOT_md": "<!-- canary -->\n"}, "instruction.md: is empty"),
        ({"instruction_DOT_md": b"\xff\xfe"}, "instruction.md: is not UTF-8 at byte 0"),
        ({"tests__test_DOT_sh": None}, "tests/test.sh: missing"),
        ({"environment__Dockerfile": None}, "environment/: missing, and environment.docker_image names no image"),
        ({"environment__Dockerfile": ""}, "environment/Dockerfile: builds nothing"),
        ({"task_DOT_toml": '[[steps]]\nname = "a"\n'}, "steps/a/instruction.md: missing"),
        ({"task_DOT_toml": '[environment]\nos = "windows"\n'}, "tests/test.bat: missing"),
    ],
)
def test_a_task_that_is_none_is_refused(changes: dict[str, str | bytes | None], said: str) -> None:
    with pytest.raises(PackageError) as caught:
        make(base(**changes), Origin("x"))
    assert caught.value.message.startswith(said)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["ENV A=0123456789", *["ENV A=$A$A"] * 40], "environment/Dockerfile: its variables stand for more than 32 KB"),
        (["ARG A=0123456789", *["ARG A=$A$A"] * 40], "environment/Dockerfile: its variables stand for more than 32 KB"),
        (["ENV A=" + "x" * 9999, "WORKDIR " + "/$A" * 9999], "its variables stand for more than 32 KB"),
        (["COPY **a**a**a**a*b /x/"], "environment/: a glob has too many **"),
        (["USER nobody"] * 1001, "environment/Dockerfile: holds more than 1000 instructions"),
    ],
    ids=["env", "arg", "workdir", "glob", "instructions"],
)
def test_a_dockerfile_that_would_grow_without_end_is_refused(lines: list[str], said: str) -> None:
    with pytest.raises(PackageError) as caught:
        make(base(environment__Dockerfile="\n".join(["FROM debian", *lines, ""])), Origin("x"))
    assert said in caught.value.message


@pytest.mark.parametrize("shebang", ["#!", "#! ", "#!/usr/bin/env", "#!/bin/bash -eu", "", "\xff"])
def test_any_first_line_of_the_tests_gives_a_command(shebang: str) -> None:
    made = make(base(tests__test_DOT_sh=f"{shebang}\nx\n".encode("latin-1")), Origin("x"))
    assert b"/tests/test.sh" in made.files["verifier/verifier.json"]


# --- folders ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/etc/passwd", r"environment/link: is a link out of the task \(/etc/passwd\)"),
        ("../../outside", r"environment/link: is a link out of the task \(\.\./\.\./outside\)"),
        ("missing", "environment/link: is a link to missing, where no plain file is"),
        ("link", "environment/link: is a link in a circle"),
        ("../environment", "environment/link: is a link to a folder that holds it"),
        ("../task.toml", None),
    ],
)
def test_links_stay_inside(target: str, said: str | None, tmp_path: Path) -> None:
    folder = harbor_tasks.write(harbor_tasks.tasks()["dockerfile-only"], tmp_path / "t")
    (tmp_path / "outside").write_text("secret")
    os.symlink(target, folder / "environment/link")
    if said is None:
        assert read_folder(folder)["environment/link"].data == (folder / "task.toml").read_bytes()
        return
    with pytest.raises(PackageError, match=said):
        read_folder(folder)


@pytest.mark.parametrize(
    ("file", "value", "said"),
    [
        ("context", {"links": {"environment": "/root"}}, "environment: is a link out of the task (/root)"),
        ("verifier", {"links": {"tests/test.sh": "../../x"}}, "tests/test.sh: is a link out of the task (../../x)"),
        ("verifier", {"links": {"tests": "environment", "tests/sub/x": "../test.sh"}}, "lies below the link tests"),
        ("verifier", {"links": {"tests/test.sh": "a\0/etc/passwd"}}, "tests/test.sh: is a link out of the task"),
        ("verifier", {"links": ["tests"]}, "verifier/harbor.json: links: has not the form that an import gives it"),
        ("context", {"executable": 3}, "context/harbor.json: executable: has not the form"),
        ("task", {"instruction_head": 3}, "task/harbor.json: instruction_head: has not the form"),
    ],
)
def test_a_package_whose_links_leave_is_not_written(file: str, value: dict[str, object], said: str) -> None:
    files = make(base(tests__sub__x="x", tests__check_DOT_py="x"), Origin("x")).files
    with pytest.raises(PackageError) as caught:
        restore({**files, f"{file}/harbor.json": json.dumps(value).encode()})
    assert said in caught.value.message


def test_a_whole_part_of_a_task_may_be_a_link_to_a_folder() -> None:
    files = {path: item for path, item in base(environment__t__test_DOT_sh="x").items() if path != "tests/test.sh"}
    task = resolved(files, {"tests": "environment/t"})
    assert restore(make(task, Origin("x")).files) == task


def test_what_is_no_plain_file_and_what_is_too_much(tmp_path: Path) -> None:
    folder = harbor_tasks.write(harbor_tasks.tasks()["dockerfile-only"], tmp_path / "t")
    os.mkfifo(folder / "tests/pipe")
    with pytest.raises(PackageError, match="tests/pipe: is no plain file"):
        read_folder(folder)
    os.unlink(folder / "tests/pipe")
    with (folder / "tests/big").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PackageError, match="tests/big: is larger than 256 MB"):
        read_folder(folder)
    os.unlink(folder / "tests/big")
    for number in range(60):
        (folder / f"tests/{number}").write_text("x")
    with pytest.raises(PackageError, match="holds more than 50 files"):
        read_folder(folder, SMALL)


def test_names_that_no_package_holds_are_refused(tmp_path: Path) -> None:
    folder = harbor_tasks.write(harbor_tasks.tasks()["dockerfile-only"], tmp_path / "t")
    odd = os.fsencode(folder / "tests") + b"/\xff.txt"
    with open(odd, "w") as file:
        file.write("x")
    with pytest.raises(PackageError, match="the name is not UTF-8"):
        read_folder(folder)
    os.unlink(odd)
    (folder / "tests/a\nb").write_text("x")
    with pytest.raises(PackageError, match="control character"):
        read_folder(folder)


def test_links_to_folders_of_folders_do_not_unfold_without_end(tmp_path: Path) -> None:
    deep = tmp_path / "t/environment/0"
    deep.mkdir(parents=True)
    for number in range(10):
        (deep / f"f{number}").write_text("x")
    for level in range(1, 12):
        folder = tmp_path / f"t/environment/{level}"
        folder.mkdir()
        for copy in range(4):
            os.symlink(f"../{level - 1}", folder / f"c{copy}")
    with pytest.raises(PackageError, match="where no plain file is"):
        read_folder(tmp_path / "t")


# --- archives --------------------------------------------------------------------------------------------------
def tar(members: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


BAD_TARS: list[tuple[tarfile.TarInfo, str]] = [
    (member("../up"), "../up: leaves the folder it is unpacked in"),
    (member("t/../../up"), "leaves the folder"),
    (member("/etc/passwd"), "/etc/passwd: leaves the folder"),
    (member("t/l", tarfile.SYMTYPE, "/etc/passwd"), "t/l: is a link out of the task"),
    (member("t/l", tarfile.SYMTYPE, "../../x"), "t/l: is a link out of the task"),
    (member("t/l", tarfile.LNKTYPE, "t/task.toml"), "t/l: is no plain file"),
    (member("t/d", tarfile.CHRTYPE), "t/d: is no plain file"),
    (member("t/p", tarfile.FIFOTYPE), "t/p: is no plain file"),
    (member("t/task.toml"), "t/task.toml: is there twice"),
    (member("t/a\x01b"), "control character"),
    (member("t/" + "x/" * 60 + "y"), "nested deeper than 40 folders"),
    (member("t/task.toml/x"), "t/task.toml: is both a file and a folder"),
]


@pytest.mark.parametrize(("info", "said"), BAD_TARS, ids=[str(n) for n in range(len(BAD_TARS))])
def test_a_hostile_tar_is_refused(info: tarfile.TarInfo, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    path.write_bytes(tar([(member("t/task.toml"), b""), (info, b"x" if info.isreg() else b"")]))
    with pytest.raises(PackageError) as caught:
        list(find(path))
    assert said in caught.value.message


def test_bombs_are_bounded(tmp_path: Path) -> None:
    zeros = gzip.compress(bytes(16 << 20))
    for name, data in (
        ("one.gz", tar([(member("t/big"), bytes(8 << 20))])),
        ("stream.gz", zeros),
        ("stream.bz2", bz2.compress(bytes(16 << 20))),
        ("stream.xz", lzma.compress(bytes(16 << 20))),
        ("many.gz", tar([(member(f"t/{n}"), b"") for n in range(100)])),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(PackageError, match=r"larger than 1 MB|unfolds to more than 2 MB|holds more than 50 files"):
            read_archive(path, SMALL)
    header = member("t/x")
    header.pax_headers = {"comment": "y" * (4 << 20)}
    path = tmp_path / "pax.tar"
    path.write_bytes(tar([(header, b"x")], "w"))
    assert "t/x" in read_archive(path)  # a header of a few MB is no bomb; one larger than a file may be is refused
    claims = bytearray(path.read_bytes())
    claims[124:136] = b"77777777777\0"
    claims[148:156] = b"%06o\0 " % sum(bytes(claims[:148]) + b" " * 8 + bytes(claims[156:512]))
    path.write_bytes(claims)
    with pytest.raises(PackageError, match="is a damaged archive"):
        read_archive(path)


def zipped_folder(folder: Path) -> bytes:
    def fill(archive: zipfile.ZipFile) -> None:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.write(path, path.relative_to(folder))

    return zipped(fill)


def zipped(fill: Callable[[zipfile.ZipFile], None]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        fill(archive)
    return buffer.getvalue()


def test_a_hostile_zip_is_refused(tmp_path: Path) -> None:
    def link(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("t/l")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")

    def device(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("t/d")
        info.external_attr = (stat.S_IFBLK | 0o777) << 16
        archive.writestr(info, "")

    def many(archive: zipfile.ZipFile) -> None:
        for number in range(60):
            archive.writestr(str(number), "")

    cases: list[tuple[Callable[[zipfile.ZipFile], None], str]] = [
        (lambda a: a.writestr("../up", "x"), "leaves the folder"),
        (lambda a: a.writestr("/abs", "x"), "leaves the folder"),
        (lambda a: a.writestr("a\\b", "x"), "has a backslash"),
        (lambda a: a.writestr("big", bytes(3 << 20)), "larger than 1 MB"),
        (many, "holds more than 50 files"),
        (link, "is a link out of the task"),
        (device, "is no plain file"),
    ]
    for number, (fill, said) in enumerate(cases):
        path = tmp_path / f"{number}.zip"
        path.write_bytes(zipped(fill))
        with pytest.raises(PackageError, match=said):
            read_archive(path, SMALL)


@pytest.mark.parametrize("cut", [0.3, 0.7])
@pytest.mark.parametrize("kind", ["zip", "gz", "tar"])
def test_a_damaged_archive_is_refused(kind: str, cut: float, tmp_path: Path) -> None:
    task = harbor_tasks.write(harbor_tasks.tasks()["modes-and-bytes"], tmp_path / "t")
    data = zipped_folder(task)
    if kind != "zip":
        data = tar([(member(f"t/{n}"), os.urandom(5000)) for n in range(9)], "w:gz" if kind == "gz" else "w")
    path = tmp_path / f"x.{kind}"
    path.write_bytes(data[: int(len(data) * cut)])
    assert is_archive(path)
    with pytest.raises(PackageError, match="is a damaged archive"):
        read_archive(path)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_sound_archive_gives_the_same_packages_as_the_folder(mode: str, tmp_path: Path) -> None:
    tasks = harbor_tasks.write_all(tmp_path / "tasks")
    path = tmp_path / "all.tar"
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        archive.add(tasks, "tasks")
    told = {place.folder: make(place.read(), Origin(place.folder)).files for place in find(path)}
    assert told == {p.folder: make(p.read(), Origin(p.folder)).files for p in find(tasks)}


def test_a_zip_keeps_modes_and_a_single_task_is_one(tmp_path: Path) -> None:
    task = harbor_tasks.write(harbor_tasks.tasks()["copies"], tmp_path / "copies")
    path = tmp_path / "copies.zip"
    path.write_bytes(zipped_folder(task))
    (place,) = find(path)
    assert place.folder == "copies"
    assert place.read() == read_folder(task)


# --- the operation ---------------------------------------------------------------------------------------------
def test_one_bad_task_of_many_ends_the_import_and_nothing_is_changed(tmp_path: Path) -> None:
    tasks = harbor_tasks.write_all(tmp_path / "tasks")
    (tasks / "copies/task.toml").write_text("x = ")
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    with pytest.raises(PackageError, match=r"^copies/task.toml: is not valid TOML") as caught:
        import_(store, ImportRequest("harbor", tasks))
    assert "--keep-going" in caught.value.hint
    assert store.packages() == []
    report = import_(store, ImportRequest("harbor", tasks, keep_going=True))
    assert (report.count("refused"), report.count("added")) == (1, len(harbor_tasks.tasks()) - 1)
    assert [r.source for r in report.rows if r.outcome == "refused"] == ["copies"]


@pytest.mark.parametrize(
    ("make_path", "said"),
    [
        (lambda p: p / "nothing", "not found"),
        (lambda p: p, "holds no task.toml"),
        (lambda p: _written(p / "x.bin", b"abc"), "is neither a folder nor a tar or zip archive"),
        (lambda p: _written(p / "dataset.toml", b"[dataset]\n").parent, "tasks: lists no task"),
        (lambda p: _written(p / "dataset.toml", b"tasks = 3\n").parent, "tasks: must be a list of tables"),
        (lambda p: _written(p / "dataset.toml", b'[[tasks]]\nname = "a/b"\n').parent, "tasks.0.digest: is missing"),
        (lambda p: _written(p / "dataset.toml", b'[[tasks]]\nname = "a/b"\ndigest = "md5"\n').parent, "tasks.0.digest"),
        (lambda p: _written(p / "dataset.toml", b"[[tasks]]\nname = 1\n").parent, "tasks.0.name: is no text"),
    ],
)
def test_paths_that_hold_nothing(make_path: Callable[[Path], Path], said: str, tmp_path: Path) -> None:
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    folder = tmp_path / "f"
    folder.mkdir()
    with pytest.raises(RoverError, match=said) as caught:
        import_(store, ImportRequest("harbor", make_path(folder)))
    assert caught.value.exit_code == 2
    assert store.packages() == []


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_options_and_globs_that_make_no_sense(tmp_path: Path) -> None:
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    tasks = harbor_tasks.write_all(tmp_path / "tasks")
    for wanted in (Wanted(options={"odd": "1"}), Wanted(options={"images": "guess"}), Wanted(pattern="none-*")):
        with pytest.raises(UsageError):
            import_(store, ImportRequest("harbor", tasks, wanted))
    with pytest.raises(UsageError, match="no importer is called 'odd'"):
        import_(store, ImportRequest("odd", tasks))


@pytest.mark.parametrize(
    "manifest",
    ["{", "[]", '{"format": "other/1"}', '{"format": "rover-package/1", "task": 3}'],
)
def test_a_damaged_manifest_of_a_carried_package_is_refused(manifest: str, tmp_path: Path) -> None:
    files = {**harbor_tasks.tasks()["copies"], MANIFEST: manifest}
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    with pytest.raises(PackageError, match=r"solution/rover/package.json"):
        import_(store, ImportRequest("harbor", harbor_tasks.write(files, tmp_path / "t")))
