"""A Harbor task for checks: sound as it stands, and whatever a test does to it.

`task(edits)` gives the files of the folder: `edits` replaces or adds files (None takes one away). The task:
`/app/report.json` with the number of orders and their total, from `/app/orders.csv`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Files = dict[str, str]

DIGEST = "sha256:" + "7" * 64
TOML = """schema_version = "1.4"
[task]
name = "acme/orders"
[agent]
timeout_sec = 300.0
[verifier]
timeout_sec = 60.0
[environment]
network_mode = "no-network"
"""
INSTRUCTION = """Read the orders in `/app/orders.csv`.

Write `/app/report.json`: an object with `orders` (how many there are) and `total` (the sum of `amount`).
"""
SOLVE = """#!/bin/bash
set -e
cd /app
python3 - <<'EOF'
import csv, json
rows = list(csv.DictReader(open("/app/orders.csv")))
report = {"orders": len(rows), "total": sum(float(r["amount"]) for r in rows)}
open("/app/report.json", "w").write(json.dumps(report) + "\\n")
EOF
"""
CHECK = """import json

report = json.load(open("/app/report.json"))
assert report["orders"] == 3, report
assert abs(report["total"] - 35.0) < 0.01, report
"""
TEST = """#!/bin/bash
if python3 /tests/check.py; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""
FILES: Files = {
    "task.toml": TOML,
    "instruction.md": INSTRUCTION,
    "environment/Dockerfile": f"FROM python:3.12-slim@{DIGEST}\nWORKDIR /app\nCOPY orders.csv .\n",
    "environment/orders.csv": "order_id,amount\n1,10.50\n2,20.25\n3,4.25\n",
    "solution/solve.sh": SOLVE,
    "tests/test.sh": TEST,
    "tests/check.py": CHECK,
}


def task(edits: Mapping[str, str | None] | None = None) -> Files:
    """The files of the task, changed."""
    changed = {**FILES, **(edits or {})}
    return {path: text for path, text in changed.items() if text is not None}


def write(files: Mapping[str, str], folder: Path) -> Path:
    """The folder on disk."""
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        if path.endswith(".sh"):
            place.chmod(0o755)
    return folder
