"""Harbor task folders of all shapes, as files in memory. Written for these tests."""

from __future__ import annotations

import os
from pathlib import Path

#: path -> text or bytes; `->TARGET` is a link, a path that ends in ! may be run
Files = dict[str, str | bytes]

TEST = "#!/bin/bash\nmkdir -p /logs/verifier\ntest -f out.txt && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"  # noqa: E501
SOLVE = "#!/bin/bash\nset -e\necho done > out.txt\n"
BASE = {"instruction.md": "Write out.txt.\n", "tests/test.sh!": TEST, "solution/solve.sh!": SOLVE}
PINNED = "python:3.12-slim@sha256:" + "7" * 64


def tasks() -> dict[str, Files]:
    """Folder name -> files of the task."""
    docker = {"environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n"}
    return {
        "dockerfile-only": {
            **BASE, **docker,
            "task.toml": 'schema_version = "1.4"\n[task]\nname = "acme/dockerfile-only"\n'
            '[agent]\ntimeout_sec = 120.0\n[verifier]\ntimeout_sec = 600.0\n[environment]\ncpus = 2\n'
            "build_timeout_sec = 600.0\n",
        },
        "image-only": {
            **BASE,
            "task.toml": f'[task]\nname = "acme/image-only"\n[environment]\ndocker_image = "{PINNED}"\n'
            'workdir = "/app"\nnetwork_mode = "no-network"\nmemory_mb = 4096\nstorage_mb = 512\n',
        },
        "image-uploads": {
            **BASE,
            "environment/data/in.csv": "a,b\n1,2\n", "environment/notes.md": "loose files are put into the workdir\n",
            "task.toml": f'[task]\nname = "acme/image-uploads"\n[environment]\ndocker_image = "{PINNED}"\n'
            'workdir = "/app/"\nnetwork_mode = "no-network"\n',
        },
        "image-of-its-own": {
            **BASE,
            "task.toml": '[task]\nname = "acme/image-of-its-own"\n[environment]\n'
            'docker_image = "ghcr.io/acme/world:3"\n',
        },
        "copies": {
            **BASE,
            "environment/Dockerfile": "# syntax=docker/dockerfile:1\nARG BASE=python:3.12-slim\nFROM ${BASE} AS build\n"
            "WORKDIR /build\nCOPY gen/ .\n\nFROM $BASE\nENV DATA=/app/data \\\n    # a comment\n    MODE=fast\n"
            "ARG OUT=data\nWORKDIR /app\nCOPY --chown=1000:1000 --chmod=755 run.sh ./\nCOPY src/*.csv ${OUT}/\n"
            'COPY ["with space.txt", "notes/"]\nCOPY --from=build /build/made.txt made.txt\n'
            "COPY <<EOF settings.ini\n[main]\nmode = fast\nEOF\nRUN mkdir -p /app/empty && chmod -R a+rwX /app\n",
            "environment/.dockerignore": "src/secret*\n!src/secret-not.csv\n**/*.bak\n",
            "environment/run.sh": "#!/bin/sh\necho hi\n", "environment/src/a.csv": "x\n1\n",
            "environment/src/b.csv": "x\n2\n", "environment/src/secret.csv": "no\n",
            "environment/src/secret-not.csv": "x\n3\n", "environment/src/c.txt": "not a csv\n",
            "environment/with space.txt": "a name with a space\n", "environment/gen/made.txt": "made\n",
            "task.toml": '[task]\nname = "acme/copies"\n[environment.env]\nMODE = "slow"\nEXTRA = "${EXTRA:-none}"\n',
        },
        "run-lines": {
            **BASE,
            "environment/Dockerfile": "FROM debian:bookworm\nUSER root\n"
            "RUN apt-get update \\\n && apt-get install -y gcc\n"
            "RUN <<EOF\nset -e\necho hi > /etc/hi\nEOF\nWORKDIR /app\nADD https://example.org/x.tar.gz /app/\n",
            "task.toml": '[task]\nname = "acme/run-lines"\n',
        },
        "network": {
            **BASE, **docker,
            "tests/test.sh!": "#!/bin/bash\napt-get update\ncurl -LsSf https://astral.sh/uv/install.sh | sh\n"
            "uvx --with pytest==8.4.1 pytest /tests/test_outputs.py\n",
            "tests/test_outputs.py": "def test_out():\n    assert open('/app/out.txt').read()\n",
            "task.toml": '[task]\nname = "acme/network"\n[environment]\nnetwork_mode = "allowlist"\n'
            'allowed_hosts = ["pypi.org", "*.example.org"]\n',
        },
        "two-steps": {
            "task.toml": 'multi_step_reward_strategy = "final"\n[task]\nname = "acme/two-steps"\n'
            '[[steps]]\nname = "plan"\nmin_reward = 0.5\n[steps.agent]\ntimeout_sec = 60.0\n'
            '[[steps]]\nname = "build it"\n[steps.verifier]\ntimeout_sec = 30.0\n[steps.verifier.env]\nA = "1"\n'
            '[steps.healthcheck]\ncommand = "true"\n',
            **docker,
            "tests/test.sh!": TEST,
            "steps/plan/instruction.md": "Plan.\n", "steps/plan/solution/solve.sh!": SOLVE,
            "steps/plan/workdir/setup.sh!": "#!/bin/sh\n:\n",
            "steps/build it/instruction.md": "Build.\n", "steps/build it/tests/test.sh!": TEST,
            "steps/build it/trajectory.json": "{}\n", "steps/notes.txt": "loose\n",
        },
        "separate-verifier": {
            **BASE, **docker,
            "tests/Dockerfile": "FROM python:3.12-slim\nCOPY . /tests/\n",
            "task.toml": 'artifacts = ["/app/out.txt", {source = "/app/logs", exclude = ["*.tmp"]}]\n'
            '[task]\nname = "acme/separate-verifier"\n[verifier]\nenvironment_mode = "separate"\ntimeout_sec = 120\n'
            '[verifier.environment]\ncpus = 1\n[[verifier.collect]]\ncommand = "dump"\n',
        },
        "several-rewards": {
            **BASE, **docker,
            "tests/test.sh!": "#!/bin/bash\nmkdir -p /logs/verifier\n"
            "echo '{\"accuracy\": 0.5, \"format\": 1}' > /logs/verifier/reward.json\n",
            "task.toml": '[task]\nname = "acme/several-rewards"\n',
        },
        "healthcheck": {
            **BASE, **docker,
            "task.toml": '[task]\nname = "acme/healthcheck"\n[environment.healthcheck]\ncommand = "test -d /app"\n'
            "interval_sec = 1\nretries = 2\n",
        },
        "tool-servers": {
            **BASE, **docker,
            "environment/server.py": "print('a server')\n", "environment/Dockerfile": "FROM python:3.12\nWORKDIR /app\n"
            "COPY server.py /opt/server.py\n",
            "task.toml": '[task]\nname = "acme/tool-servers"\n[environment]\nskills_dir = "/app/skills"\n'
            '[[environment.mcp_servers]]\nname = "files"\ntransport = "stdio"\ncommand = "python3"\n'
            'args = ["/opt/server.py"]\n[[environment.mcp_servers]]\nname = "Web Search"\n'
            'transport = "streamable-http"\nurl = "http://search:8080/mcp"\n'
            'headers = {Authorization = "Bearer ${KEY}"}\n',
        },
        "secrets": {
            **BASE, **docker,
            "task.toml": '[task]\nname = "acme/secrets"\n[environment.env]\nKEY = "${API_KEY}"\n'
            'MODE = "${MODE:-plain}"\nPLAIN = "yes"\n[verifier.env]\nJUDGE = "${JUDGE_KEY}"\n'
            '[solution.env]\nTOKEN = "abc"\n',
        },
        "unknown-keys": {
            **BASE, **docker,
            "task.toml": 'version = "1.0"\nodd = 3\n[task]\nname = "acme/unknown-keys"\nmood = "good"\n'
            "[metadata]\nfree = {deep = [1, 2.0, inf], at = 2026-11-30T09:00:00Z, day = 2026-11-30, t = 09:30:00}\n"
            '[environment]\nmemory = "4G"\nallow_internet = false\nshape = "round"\n[agent]\n[weird.table]\nx = 1\n',
        },
        "名前-ünïcode": {
            **BASE, **docker,
            "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\nCOPY дані/ ./дані/\n",
            "environment/дані/файл 1.txt": "текст\n", "tests/проверка.py": "pass\n",
            "task.toml": '[metadata]\nauthor = "Jürgen 名"\n',
        },
        "modes-and-bytes": {
            **BASE, **docker,
            "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\nCOPY . .\n",
            "environment/bin/tool!": b"\x7fELF\x00\xff", "environment/deep/er/and/deeper/x.bin": bytes(range(256)),
            "environment/latest": "->deep/er/and/deeper/x.bin", "environment/folder-link": "->deep/er",
            "tests/data.bin": b"\x00\x01\xff", "tests/link.bin": "->data.bin", "README.md!": "# read me\n",
            "LICENSE": "free\n", "notes/other.txt": "kept\n", ".gitignore": "*.log\n", "task.toml":
            '[task]\nname = "acme/modes-and-bytes"\nversion = "2"\nauthors = [{name = "A", email = "a@example.org"}]\n',
        },
        "no-solution": {
            "instruction.md": "<!-- canary GUID 123 -->\n# CANARY 456\n\nWrite out.txt.\n", "tests/test.sh": "echo 0\n",
            **docker, "task.toml": '[task]\nname = "acme/no-solution"\n', "trajectory.json": "{}\n",
        },
        "python-tests": {
            **BASE, **docker,
            "tests/test.sh!": "#!/usr/bin/env python3\nimport json, os\nos.makedirs('/logs/verifier', exist_ok=True)\n"
            "json.dump({'reward': 1.0, 'tokens': 5}, open('/logs/verifier/reward.json', 'w'))\n",
            "task.toml": '[task]\nname = "acme/python-tests"\n[agent]\nuser = "root"\n',
        },
        "services": {
            **BASE,
            "environment/docker-compose.yaml": "services:\n  main:\n    image: python:3.12\n"
            "  db:\n    image: postgres:17\n",
            "task.toml": '[task]\nname = "acme/services"\n[environment]\nworkdir = "/app"\ngpus = 1\n',
        },
    }  # fmt: skip


def write(files: Files, folder: Path) -> Path:
    """Write a task folder."""
    for path, content in files.items():
        target = folder / path.removesuffix("!")
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str) and content.startswith("->"):
            os.symlink(content[2:], target)
            continue
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        target.chmod(0o755 if path.endswith("!") else 0o644)
    return folder


def write_all(folder: Path) -> Path:
    """Write all of them as a folder of tasks."""
    for name, files in tasks().items():
        write(files, folder / name)
    return folder
