"""Packages as they come from container tasks, made by hand: the verifier is a program that writes a reward.

`container_package()` gives a package's files as stored. The task: `/app/report.json` with the number of orders and
their total, from `/app/data/orders.csv`. What a test wants otherwise is an argument.

    SOLVE        solution/solve.sh, which solves it
    CHECK        tests/check.py, which tests/test.sh runs
    graded_by(script)   the package with another test.sh
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from packages import runtime

from rover.rollout.env import Env, env_from_files
from rover.sandbox.protocol import Runtime, lacking
from rover_store.records import (
    Cases,
    Context,
    ContextFile,
    Contract,
    Criterion,
    Environment,
    Harness,
    Limits,
    Package,
    Program,
    Requirement,
    Task,
    Verifier,
)
from rover_store.records.contract import ProgramRule

Files = dict[str, bytes]

ORDERS = b"order_id,amount\n1,10.50\n2,20.25\n3,4.25\n"
REPORT = b'{"orders": 3, "total": 35.0}\n'
INSTRUCTION = """Read the orders in `/app/data/orders.csv` and write `/app/report.json`: an object with the fields
`orders` (how many orders there are) and `total` (the sum of `amount`).
"""
SOLVE = b"""#!/bin/bash
set -e
python3 - <<'EOF'
import csv, json
rows = list(csv.DictReader(open("/app/data/orders.csv")))
report = {"orders": len(rows), "total": sum(float(r["amount"]) for r in rows)}
open("/app/report.json", "w").write(json.dumps(report) + "\\n")
EOF
"""
CHECK = b"""import json
import sys

report = json.load(open("/app/report.json"))
sys.exit(0 if report == {"orders": 3, "total": 35.0} else 1)
"""
TEST = b"""#!/bin/bash
if python3 /tests/check.py; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""


def container_package(
    name: str = "count-orders",
    *,
    instruction: str = INSTRUCTION,
    start: Mapping[str, bytes] | None = None,
    tests: Mapping[str, bytes] | None = None,
    solution: Mapping[str, bytes] | None = None,
    keys: tuple[str, ...] = ("reward",),
    workdir: str = "/app",
    seconds: float = 20.0,
    env: Mapping[str, str] | None = None,
    progress: bool = False,
    harness: Harness | None = None,
    environment: Environment | None = None,
) -> Files:
    """A package's files. `start` is the workspace, `tests` and `solution` the folders of those names."""
    start = {"data/orders.csv": ORDERS} if start is None else start
    tests = {"test.sh": TEST, "check.py": CHECK} if tests is None else tests
    solution = {"solve.sh": SOLVE} if solution is None else solution
    context = Context(
        files=tuple(ContextFile(path=path, access="editable") for path in sorted(start)),
        environment=environment or Environment(workdir=workdir),
    )
    contract = Contract(
        requirements=tuple(
            Requirement(id=key, statement=f"the tests give 1 for {key}", rule=ProgramRule(key=key)) for key in keys
        )
    )
    verifier = Verifier(
        criteria=tuple(Criterion(id=k, requirement=k, check="program", progress=progress) for k in keys),
        pass_weight=1.0,
        program=Program(argv=("bash", "/tests/test.sh"), seconds=seconds, env=dict(env or {})),
    )
    records: dict[str, Any] = {
        "package.json": Package(name=name, title="Count the orders"),
        "context/context.json": context,
        "task/task.json": Task(title="Count the orders"),
        "task/contract.json": contract,
        "harness/harness.json": harness or Harness(tools=("shell",), limits=Limits(wall_s=20.0)),
        "verifier/verifier.json": verifier,
        "verifier/cases/cases.json": Cases(),
    }
    files = {path: record.dump() for path, record in records.items()}
    files["task/instruction.md"] = instruction.encode()
    files |= {f"context/files/{path}": data for path, data in start.items()}
    files |= {f"verifier/tests/{path}": data for path, data in tests.items()}
    files |= {f"demonstrations/solution/{path}": data for path, data in solution.items()}
    return dict(sorted(files.items()))


def container_env(**changes: Any) -> Env:
    """`container_package`, ready to run."""
    return env_from_files(container_package(**changes), {})


def graded_by(script: str, **changes: Any) -> Env:
    """The package with another test.sh."""
    return container_env(tests={"test.sh": script.encode()}, **changes)


@contextmanager
def placing() -> Iterator[Runtime]:
    """A runtime in which a workspace can stand elsewhere; the test is skipped where it cannot."""
    kind = runtime()
    try:
        if lacking(("workdir",), kind):
            pytest.skip("needs a sandbox in which a workspace can stand elsewhere")
        yield kind
    finally:
        kind.close()
