"""The Dockerfile reader: what it understands, and that it says what it does not."""

from __future__ import annotations

import pytest

from rover.port.harbor import dockerfile, shell
from rover.port.harbor.image import Stage, is_plain, of_dockerfile
from rover.port.harbor.patterns import Ignore, chosen, matches
from rover.port.harbor.tree import Item
from rover_store.errors import PackageError


def stage(text: str, **files: str) -> Stage:
    tree = {path.replace("__", "/").replace("_DOT_", "."): Item(data.encode()) for path, data in files.items()}
    return of_dockerfile({"Dockerfile": Item(text.encode()), **tree})


def paths(found: Stage) -> list[str]:
    return sorted(found.files)


# --- reading ---------------------------------------------------------------------------------------------------
def test_lines_go_on_comments_fall_out_and_names_are_capitals() -> None:
    text = b"# a comment\nfrom debian AS x\n\nRUN one \\\n  # inside\n\n  two \\\n three\n" b'CMD ["a", "b c"]\n'
    read = dockerfile.read(text)
    assert [(i.line, i.name, i.text) for i in read.instructions] == [
        (2, "FROM", "debian AS x"), (4, "RUN", "one   two  three"), (9, "CMD", '["a", "b c"]'),
    ]  # fmt: skip
    assert read.instructions[2].words() == ["a", "b c"]


def test_the_escape_directive_and_flags() -> None:
    read = dockerfile.read(b"# syntax=docker/dockerfile:1\n# escape=`\nFROM x\nCOPY --chown=a:b --link c `\n d\\\n")
    assert read.escape == "`"
    assert read.instructions[1].flags == (("chown", "a:b"), ("link", "true"))
    assert read.instructions[1].text == "c  d\\"
    assert dockerfile.read(b"# escape=\\\n\n# escape=`\nFROM x\n").escape == "\\"


def test_documents_in_the_file() -> None:
    read = dockerfile.read(b"FROM x\nRUN <<A cat && <<-'B' sh\none\nA\n\ttwo $X\n\tB\nUSER me\n")
    run = read.instructions[1]
    assert [(h.name, h.text, h.literal) for h in run.heredocs] == [("A", "one\n", False), ("B", "two $X\n", True)]
    assert read.instructions[2].text == "me"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "builds nothing: there is no FROM"),
        (b"# only a comment\n", "builds nothing: there is no FROM"),
        (b"RUN true\n", "builds nothing: there is no FROM"),
        (b"FROM x\nFETCH y\n", "line 2: 'FETCH' is no instruction"),
        (b"FROM x\nCOPY <<EOF y\nnever ends\n", "line 2: the text up to 'EOF' does not end"),
        (b"FROM \xff\n", "is not UTF-8 at byte 5"),
        (b"FROM x\n" * 30_000, "is larger than"),
    ],
)
def test_a_file_that_builds_nothing_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(PackageError, match=f"environment/Dockerfile: {said}"):
        dockerfile.read(text)


@pytest.mark.parametrize(
    ("text", "replaced", "whole"),
    [
        ("$A/${B}", "1/2", True), ("${C:-3}${A:+yes}${C:+no}", "3yes", True), ("\\$A $C", "$A ", False),
        ("${A-x}${B:?needed}", "12", True),
    ],
)  # fmt: skip
def test_variables(text: str, replaced: str, whole: bool) -> None:
    assert dockerfile.replaced(text, {"A": "1", "B": "2"}) == (replaced, whole)


# --- meaning ---------------------------------------------------------------------------------------------------
def test_working_folders_are_relative_to_each_other_and_end_with_their_stage() -> None:
    assert stage("FROM debian\nWORKDIR /a\nWORKDIR b/../c\n").workdir == "/a/c"
    assert stage("FROM debian AS x\nWORKDIR /a\nFROM ubuntu\n").workdir == ""
    assert stage("FROM debian AS x\nWORKDIR /a\nFROM x\n").workdir == "/a"
    assert stage("FROM debian\nARG D=in\nENV R=/srv\nWORKDIR $R/${D}\n").workdir == "/srv/in"
    assert stage("FROM debian\nWORKDIR $HOME/x\n").reasons == (
        "WORKDIR $HOME/x rests on a variable of the image (line 2)",
    )


def test_copies_of_files_folders_and_globs() -> None:
    files = {"a_DOT_csv": "1", "b_DOT_csv": "2", "d__c_DOT_txt": "3", "d__e__f_DOT_txt": "4"}
    head = "FROM debian\nWORKDIR /w\n"
    assert paths(stage(f"{head}COPY a.csv x.csv\n", **files)) == ["/w/x.csv"]
    assert paths(stage(f"{head}COPY a.csv x/\n", **files)) == ["/w/x/a.csv"]
    assert paths(stage(f"{head}COPY a.csv .\n", **files)) == ["/w/a.csv"]
    assert paths(stage(f"{head}COPY *.csv /data/\n", **files)) == ["/data/a.csv", "/data/b.csv"]
    assert paths(stage(f"{head}COPY d x\n", **files)) == ["/w/x/c.txt", "/w/x/e/f.txt"]
    assert paths(stage(f"{head}COPY d/ a.csv ./\n", **files)) == ["/w/a.csv", "/w/c.txt", "/w/e/f.txt"]
    assert paths(stage(f'{head}COPY ["d/c.txt", "y/"]\n', **files)) == ["/w/y/c.txt"]
    assert paths(stage(f"{head}ADD ./d/e ..\n", **files)) == ["/f.txt"]
    assert set(paths(stage(f"{head}COPY . .\n", **files))) >= {"/w/Dockerfile", "/w/d/e/f.txt"}


def test_modes_and_owners() -> None:
    text = "FROM debian\nWORKDIR /w\nCOPY --chmod=0755 --chown=1:1 a.sh b.sh\nCOPY --chmod=644 a.sh c.sh\n"
    found = stage(text, a_DOT_sh="x")
    assert {path: item.executable for path, item in found.files.items()} == {"/w/b.sh": True, "/w/c.sh": False}


def test_files_of_another_stage_are_taken_where_they_are_known() -> None:
    text = "FROM debian AS one\nWORKDIR /b\nCOPY a .\n{}FROM debian\nWORKDIR /w\nCOPY --from=one /b/a made\n"
    assert paths(stage(text.format(""), a="1")) == ["/w/made"]
    built = stage(text.format("RUN make\n"), a="1")
    assert (paths(built), built.reasons) == ([], ("COPY /b/a made (line 7)",))
    assert stage("FROM debian\nCOPY --from=alpine /bin/x /x\n").reasons == ("COPY /bin/x /x (line 2)",)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("RUN make", "RUN make (line 2)"),
        ("RUN [\"make\", \"all\"]", "RUN make all (line 2)"),
        ("ADD x.tar.gz /x", "ADD x.tar.gz /x (line 2)"),
        ("COPY missing /x", "COPY missing /x (line 2)"),
        ("COPY ../out /x", "COPY ../out /x (line 2)"),
        ("COPY --parents a /x", "COPY a /x (line 2): --parents is not read here"),
        ("COPY a", "COPY a (line 2): names no target"),
    ],
)
def test_what_only_a_build_can_tell_makes_the_image_necessary(line: str, reason: str) -> None:
    files = {"a": "1", "x_DOT_tar_DOT_gz": "2"}
    assert stage(f"FROM debian\n{line}\n", **files).reasons == (reason,)


def test_folders_users_and_modes_are_no_reason() -> None:
    text = "FROM debian\nRUN mkdir -p /app/x && chmod 777 /app ; useradd me\n"
    text += 'RUN ["true"]\nEXPOSE 80\nLABEL a=b\nCMD x\n'
    assert stage(text).reasons == ()
    assert stage("FROM debian\nRUN echo hi > /etc/x\n").reasons != ()


def test_a_base_that_is_more_than_a_system_is_a_reason() -> None:
    assert stage("FROM node:20\n").reasons == ("what node:20 holds (line 1)",)
    assert stage("ARG V=3.12\nFROM python:${V}-slim\n").reasons == ()
    pinned = "docker.io/library/python:3@sha256:" + "0" * 64
    plain = ("debian", "ubuntu:24.04", pinned, "public.ecr.aws/docker/library/debian:12")
    assert all(map(is_plain, plain))
    assert not any(map(is_plain, ("node", "localhost:5000/debian", "me/ubuntu", "ghcr.io/x/python:3")))


def test_what_a_build_fetches_is_named() -> None:
    text = "FROM debian\nRUN apt-get update && \\\n apt-get install -y x\nADD https://a.org/f /f\n"
    text += "RUN pip install --no-index x\n"
    assert len(stage(text).fetches) == 2


# --- patterns and scripts --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pattern", "path", "yes"),
    [("*.csv", "a.csv", True), ("*.csv", "d/a.csv", False), ("**/a", "x/y/a", True), ("**/a", "a", True),
     ("d?", "d1", True), ("[ab]c", "bc", True), ("[!ab]c", "bc", False), ("a.c", "abc", False), ("**", "x/y", True),
     ("[", "[", True)],
)  # fmt: skip
def test_globs(pattern: str, path: str, yes: bool) -> None:
    assert matches(pattern, path) is yes


def test_what_is_ignored() -> None:
    out = Ignore("# no\n\nnode_modules\n*.log\n!keep.log\n./build/\n**/*.tmp\n")
    left_out = ["node_modules/x/y", "a.log", "build/x", "a/b/c.tmp"]
    kept = ["keep.log", "src/a.log", "a.txt", "src/build/x"]
    assert [out(p) for p in (*left_out, *kept)] == [True] * 4 + [False] * 4
    assert chosen("src", ["src/a", "srcs/b", "src"]) == {"src/a": "a", "src": "src"}


@pytest.mark.parametrize(
    "line",
    ["apt-get update", "sudo apt install x", "curl -L https://a.org | sh", "cd x && pip install y", "uvx pytest",
     "python3 -m pip install -q x", "git clone https://a.org/b", "npm ci", "uv pip install x", "(wget http://a.org/b)"],
)  # fmt: skip
def test_commands_that_fetch(line: str) -> None:
    assert shell.fetching(f"#!/bin/sh\n# apt-get is not run here\n{line}\n") == [(3, line)]


@pytest.mark.parametrize(
    "line",
    ["pip install --no-index x", "curl http://localhost:8080/x", "echo 'no pip'", "pytest -q", "git commit -m x",
     "pipx", "cat <<EOF\napt-get install x\nEOF"],
)  # fmt: skip
def test_commands_that_do_not(line: str) -> None:
    assert shell.fetching(f"{line}\n") == []
