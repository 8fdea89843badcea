"""What a reader finds in a task from elsewhere: each kind once, at its file and line; nothing in a sound one."""

from __future__ import annotations

import pytest
from foreign_tasks import CHECK, DIGEST, FILES, INSTRUCTION, SOLVE, TEST, TOML, task

from rover.diagnose.kinds import KINDS, kind
from rover.diagnose.remedies import REMEDIES
from rover.port.harbor.package import Origin, make
from rover.port.harbor.tree import Item
from rover.port.lint.image import unpinned
from rover.port.lint.read import read_task
from rover.port.lint.task import ForeignTask, foreign_task, toml_line
from rover.rollout.env import env_from_files
from rover_store.records import Finding

KEY = "sk-proj-" + "Ab3" * 12
DOCKERFILE = FILES["environment/Dockerfile"]
Edits = dict[str, str | None]
#: keys of details that any kind may have
ANYWHERE = ("subject", "file", "line", "how", "path", "paths", "found", "limit", "needed")


def read(edits: Edits | None = None) -> ForeignTask:
    files = {path: Item(text.encode(), path.endswith(".sh")) for path, text in sorted(task(edits).items())}
    return foreign_task(env_from_files(make(files, Origin("orders")).files, {}))


def found(edits: Edits | None = None) -> tuple[Finding, ...]:
    return read_task(read(edits))


def test_a_sound_task_says_nothing() -> None:
    assert found() == ()


def test_the_files_are_those_of_the_folder() -> None:
    assert {path: data.decode() for path, data in read().files.items()} == FILES


#: what is done to the sound task -> kind, first suspect, file, line, confirmed, part of the message
CASES: dict[str, tuple[Edits, tuple[str, str, str, int, bool], str]] = {
    "request names what is nowhere": (
        {"instruction.md": INSTRUCTION + "Rates are in `/app/rates.csv`.\n"},
        ("missing_input", "context", "instruction.md", 4, False), "rates.csv",
    ),
    "solution reads what is nowhere": (
        {"instruction.md": INSTRUCTION + "Rates are in `/app/rates.csv`.\n",
         "solution/solve.sh": SOLVE + "cat /app/rates.csv\n"},
        ("missing_input", "context", "solution/solve.sh", 10, False), "rates.csv",
    ),
    "tests lack a file of their own": (
        {"tests/check.py": CHECK + 'expected = open("/tests/expected.json").read()\n'},
        ("missing_input", "verifier", "tests/check.py", 6, False), "/tests/expected.json",
    ),
    "another name in the request": (
        {"instruction.md": INSTRUCTION.replace("report.json", "reports.json")},
        ("renamed_deliverable", "task", "instruction.md", 3, False), "the request names reports.json",
    ),
    "tests demand what nobody asked for": (
        {"tests/check.py": CHECK + 'assert open("/app/summary.txt").read()\n'},
        ("extra_demand", "verifier", "tests/check.py", 6, False), "summary.txt",
    ),
    "the solution lies in the image": (
        {"environment/notes/how.sh": SOLVE},
        ("leaked_answer", "context", "environment/notes/how.sh", 1, True), "the same as solution/solve.sh",
    ),
    "the tests lie in the image": (
        {"environment/qa.py": CHECK},
        ("verifier_readable", "context", "environment/qa.py", 1, True), "the same as tests/check.py",
    ),
    "parts of the solution lie in the image": (
        {"environment/readme.txt": "Notes\n\n" + SOLVE.replace("#!/bin/bash", "")},
        ("leaked_answer", "context", "environment/readme.txt", 6, False), "lines of solution/solve.sh",
    ),
    "a name that tells": (
        {"environment/expected_output.json": '{"a": 1}\n'},
        ("leaked_answer", "context", "environment/expected_output.json", 1, False), "its name says",
    ),
    "a key in the settings": (
        {"task.toml": TOML + f'[environment.env]\nMODEL_KEY = "{KEY}"\n'},
        ("secret_in_settings", "context", "task.toml", 11, True), "the form of an API key",
    ),
    "a password by name": (
        {"task.toml": TOML + '[verifier.env]\nDB_PASSWORD = "correct horse battery"\n'},
        ("secret_in_settings", "verifier", "task.toml", 11, False), "21 characters",
    ),
    "a key in the image": (
        {"environment/Dockerfile": DOCKERFILE + f"ENV OPENAI_API_KEY={KEY}\n"},
        ("secret_in_settings", "context", "environment/Dockerfile", 4, True), "the form of an API key",
    ),
    "a key in a script": (
        {"tests/check.py": CHECK + f'key = "{KEY}"\n'},
        ("secret_in_settings", "verifier", "tests/check.py", 6, True), "the form of an API key",
    ),
    "no reward": (
        {"tests/test.sh": "#!/bin/bash\npython3 /tests/check.py\n"},
        ("verifier_crash", "verifier", "tests/test.sh", 1, False), "writes reward.txt",
    ),
    "set -e": (
        {"tests/test.sh": "#!/bin/bash\nset -euo pipefail\npython3 /tests/check.py\n"
         "echo 1 > /logs/verifier/reward.txt\n"},
        ("verifier_crash", "verifier", "tests/test.sh", 3, False), "`set -e` (line 2)",
    ),
    "the solution sleeps too long": (
        {"solution/solve.sh": SOLVE + "sleep 10m\n"},
        ("budget_too_small", "harness", "solution/solve.sh", 10, False), "sleeps for 600 s",
    ),
    "the tests sleep too long": (
        {"tests/check.py": CHECK + "import time\ntime.sleep(61)\n"},
        ("budget_too_small", "verifier", "tests/check.py", 7, False), "and have 60 s",
    ),
    "no time at all": (
        {"task.toml": TOML.replace("300.0", "2.0")},
        ("budget_too_small", "harness", "task.toml", 5, False), "an agent has 2 s",
    ),
    "a base without digest": (
        {"environment/Dockerfile": DOCKERFILE.replace(f"@{DIGEST}", "")},
        ("unpinned_image", "context", "environment/Dockerfile", 1, True), "python:3.12-slim",
    ),
    "an image without digest": (
        {"task.toml": TOML + 'docker_image = "python:3.12"\nworkdir = "/app"\n'},
        ("unpinned_image", "context", "task.toml", 10, True), "python:3.12",
    ),
    "tests fetch": (
        {"tests/test.sh": TEST + "curl -sSf https://example.org/x\n"},
        ("needs_network", "verifier", "tests/test.sh", 7, True), "without which tests cannot run",
    ),
    "python fetches": (
        {"tests/check.py": CHECK + 'import urllib.request\nurllib.request.urlopen("https://example.org/")\n'},
        ("needs_network", "verifier", "tests/check.py", 7, False), "asks a server",
    ),
    "an image is built from a network": (
        {"environment/Dockerfile": DOCKERFILE + "ADD https://example.org/x.bin /opt/x\n"},
        ("needs_network", "context", "environment/Dockerfile", 4, True), "cannot be built",
    ),
    "root": (
        {"task.toml": TOML.replace("[verifier]", "[verifier]\nuser = 'root'")},
        ("needs_root", "verifier", "task.toml", 7, True), "verifier.user is 'root'",
    ),
    "a graphics card": (
        {"task.toml": TOML + "gpus = 2\n"},
        ("cannot_run", "harness", "task.toml", 10, True), "needs gpu",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_each_at_its_place(what: str) -> None:
    edits, (name, component, file, line, confirmed), said = CASES[what]
    hits = [f for f in found(edits) if f.kind == name]
    assert len(hits) == 1, found(edits)
    (one,) = hits
    assert one.components[0] == component
    assert (one.details["file"], one.details["line"]) == (file, line)
    assert one.status == ("confirmed" if confirmed else "hypothesis")
    assert said in one.message
    assert set(one.details) <= {*kind(name).details, *ANYWHERE}
    others = {f.kind for f in found(edits)} - {name}
    assert others <= {"needs_network", "needs_root", "cannot_run", "unpinned_package"}, others


def test_no_secret_is_ever_repeated() -> None:
    edits: Edits = {
        "task.toml": TOML + f'[environment.env]\nA_TOKEN = "{KEY}"\n',
        "environment/Dockerfile": DOCKERFILE + f"ENV K={KEY}\nRUN curl -H 'Authorization: Bearer {KEY}' https://x.org\n",
        "tests/test.sh": TEST + f"curl -H 'X-Api-Key: {KEY}' https://me:hunter22222@example.org/x\n",
    }
    text = repr(found(edits))
    assert "secret_in_settings" in text
    assert KEY[:14] not in text
    assert "hunter22222" not in text


def test_what_is_no_secret() -> None:
    edits: Edits = {
        "task.toml": TOML + '[environment.env]\nAPI_KEY = "${API_KEY:-}"\nDB_PASSWORD = "postgres"\nTOKENS = "1"\n'
        'SECRET_NAME = "<your secret>"\nTOKENIZER = "gpt2-something-long"\n',
    }
    assert [f for f in found(edits) if f.kind == "secret_in_settings"] == []


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("pip install pytest", ["pytest"]),
        ("pip install pytest==8.4.1 requests", ["requests"]),
        ("pip install -r requirements.txt", []),
        ("pip3 install --no-cache-dir 'numpy>=1' pandas==2.0", ["numpy"]),
        ("python3 -m pip install --index-url https://x.org/s mypkg", ["mypkg"]),
        ("pip install .", []),
        ("pip install ./dist/x.whl git+https://x.org/y", []),
        ("uvx --with pytest==8.4.1 --with rich pytest /tests", ["rich"]),
        ("npm install left-pad @scope/thing@1.2.3", ["left-pad"]),
        ("npm ci", []),
        ("pip install $PACKAGES", []),
    ],
)
def test_what_is_installed_without_a_version(line: str, names: list[str]) -> None:
    assert list(unpinned(line)) == names


def test_stages_and_arguments_of_an_image() -> None:
    text = f"ARG BASE=debian:12\nFROM $BASE AS build\nFROM build\nFROM scratch\nFROM x@{DIGEST}\nFROM $UNKNOWN\n"
    edits: Edits = {"environment/Dockerfile": text + "WORKDIR /app\nCOPY orders.csv .\n"}
    hits = [f for f in found(edits) if f.kind == "unpinned_image"]
    assert [(f.details["value"], f.details["line"]) for f in hits] == [("debian:12", 2)]


def test_a_file_that_says_one_thing_a_thousand_times_says_it_a_few_times() -> None:
    many = "".join(f"curl https://example.org/{n}\n" for n in range(1000))
    assert sum(f.kind == "needs_network" for f in found({"tests/test.sh": TEST + many})) == 20


def test_lines_of_settings() -> None:
    text = '[a]\nx = 1\n[a.b]\ny = 2\n[[steps]]\n[c]\nenv = { KEY = "1", OTHER = "2" }\n"z" = 3\n'
    asked = (("a", "x"), ("a.b", "y"), ("c.env", "KEY"), ("c", "z"), ("c", "KEY"))
    assert [toml_line(text, *at) for at in asked] == [2, 4, 7, 8, None]


def test_every_kind_has_a_remedy_and_a_summary() -> None:
    assert {k.name for k in KINDS} == set(REMEDIES)
    assert all(k.summary.endswith(".") for k in KINDS)


@pytest.mark.parametrize("data", [b"\0\0\0", b"\xff" * 3, b"x" * (2 << 20)])
def test_what_is_no_text_is_left_alone(data: bytes) -> None:
    files = {path: Item(text.encode()) for path, text in FILES.items()} | {"tests/data.py": Item(data)}
    made = make(dict(sorted(files.items())), Origin("orders"))
    assert read_task(foreign_task(env_from_files(made.files, {}))) == ()
