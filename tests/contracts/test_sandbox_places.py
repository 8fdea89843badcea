"""Places: the workspace at a path of a package's choice, folders of the host shown, variables."""

from __future__ import annotations

from pathlib import Path

import pytest
from boxes import LIMITS

from rover.sandbox.pool import Pool
from rover.sandbox.protocol import Place, Runtime, lacking
from rover_store.errors import SandboxError

FILES = {"app/main.txt": b"1", "tests/test.sh": b"cat /app/main.txt"}
SPLIT = Place(links=(("/app", "app"), ("/tests", "tests"), ("/srv/logs", "logs")), env=(("COLOUR", "red"),))


def test_the_workspace_stands_where_the_place_says(real_runtime: Runtime) -> None:
    if lacking(("workdir",), real_runtime):
        pytest.skip(f"{real_runtime.kind} offers no workdir")
    box = real_runtime.open({"a": b"1"}, limits=LIMITS, place=Place(links=(("/app", ""),)))
    done = box.run(["sh", "-c", "cat /app/a; cd /app && echo 2 > b && cat /w/b; mv a c"])
    assert (done.stdout, done.stderr) == (b"12\n", b"")
    assert sorted(box.snapshot().entries) == ["b", "c"]
    box.reset()
    assert box.run(["cat", "/app/a"]).stdout == b"1"
    box.close()


def test_several_folders_and_variables(real_runtime: Runtime) -> None:
    if lacking(("workdir",), real_runtime):
        pytest.skip(f"{real_runtime.kind} offers no workdir")
    box = real_runtime.open(FILES, limits=LIMITS, place=SPLIT)
    done = box.run(["sh", "-c", "cd /app && sh /tests/test.sh; mkdir -p logs ../logs; echo $COLOUR > /srv/logs/x"])
    assert done.stdout == b"1"
    assert box.snapshot().entries["logs/x"].size == 4
    assert box.run(["sh", "-c", "rm /app"]).exit_code != 0, "the links are not a command's to change"
    box.close()


@pytest.mark.parametrize(
    "path", ["app", "/", "/usr/share/x", "/tmp/x", "/a/../b", "/w/x", "/proc", "/v", "/etc/x", "//a", "/r", "/a\0b"]
)
def test_places_that_no_box_can_have(real_runtime: Runtime, path: str) -> None:
    with pytest.raises(SandboxError):
        real_runtime.open({}, place=Place(links=((path, ""),)))


@pytest.mark.parametrize("folder", ["..", "/x", "a/../b", "a//b", "."])
def test_links_stay_in_the_workspace(real_runtime: Runtime, folder: str) -> None:
    with pytest.raises(SandboxError):
        real_runtime.open({}, place=Place(links=(("/app", folder),)))


def test_a_folder_of_the_host_is_shown_read_only(real_runtime: Runtime, tmp_path: Path) -> None:
    shown = tmp_path / "agent"
    shown.mkdir()
    (shown / "program").write_text("#!/bin/sh\necho hello\n")
    (shown / "program").chmod(0o755)
    place = Place(shows=((str(shown), "/opt/agent"),))
    if real_runtime.kind == "landlock":
        pytest.skip("landlock shows a folder at its own path alone")
    box = real_runtime.open({}, limits=LIMITS, place=place)
    assert box.run(["/opt/agent/program"]).stdout == b"hello\n"
    assert box.run(["sh", "-c", "echo x > /opt/agent/new"]).exit_code != 0
    assert not (shown / "new").exists()
    box.close()
    with pytest.raises(SandboxError, match="no folder"):
        real_runtime.open({}, place=Place(shows=((str(tmp_path / "none"), "/opt/agent"),)))


def test_a_pool_keeps_places_apart(real_runtime: Runtime) -> None:
    if lacking(("workdir",), real_runtime):
        pytest.skip(f"{real_runtime.kind} offers no workdir")
    app = Place(links=(("/app", ""),))
    with Pool(real_runtime, 1) as pool:
        with pool.box({"a": b"1"}, LIMITS) as plain:
            assert plain.run(["cat", "/app/a"]).exit_code != 0
        with pool.box({"a": b"2"}, LIMITS, app) as placed:
            assert placed is not plain
            assert placed.run(["cat", "/app/a"]).stdout == b"2"
        with pool.box({"a": b"3"}, LIMITS, app) as again:
            assert again is placed
        with pool.box({"a": b"4"}, LIMITS) as other:
            assert other is not plain, "one box at a time was asked for"
            assert other.run(["cat", "a"]).stdout == b"4"


def test_what_a_runtime_lacks(real_runtime: Runtime) -> None:
    unmet = real_runtime.unmet  # type: ignore[attr-defined]
    assert lacking(unmet[:1], real_runtime) == unmet[:1]
    assert lacking(("network",), real_runtime) == ("network",)
    assert lacking((), real_runtime) == ()
