"""A small workspace of made-up files for tests that build: related tables, a workbook, a list of objects, notes."""

from __future__ import annotations

import json
import random
from pathlib import Path

from rover.construct.build import Workspace
from rover.construct.config import BuildConfig
from rover.construct.families.protocol import Draft, Family
from rover.construct.profile import profile_folder
from rover.harness.tools.workbooks import write

REGIONS = ("North", "South", "East", "West")


def shop_files() -> dict[str, bytes]:
    """Equal calls give equal bytes."""
    rng = random.Random(7)
    customers = [
        [f"C{i:03}", f"Firm {chr(65 + i % 26)}{i}", rng.choice(REGIONS), rng.choice(("retail", "trade"))]
        for i in range(40)
    ]
    orders = [
        [
            1000 + i,
            rng.choice(customers)[0],
            rng.choice(("open", "shipped", "returned")),
            f"{rng.randint(100, 99999) / 100:.2f}",
            rng.randint(1, 20),
            f"2024-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        ]
        for i in range(150)
    ]
    stock = [
        [f"P{i:02}", rng.choice(("tool", "paint", "wood")), rng.randint(0, 400), rng.randint(1, 9)] for i in range(30)
    ]
    visits = [
        {"visit": f"V{i}", "channel": rng.choice(("web", "shop")), "minutes": rng.randint(1, 90)} for i in range(60)
    ]
    return {
        "customers.csv": _csv(["customer_id", "name", "region", "kind"], customers),
        "orders.csv": _csv(["order_id", "customer_id", "status", "amount", "quantity", "ordered"], orders),
        "stock/stock.xlsx": write("stock.xlsx", None, "Stock", ["sku", "group", "pieces", "shelf"], stock),
        "visits.json": (json.dumps(visits, indent=1) + "\n").encode(),
        "notes.md": b"# Notes\n\nOrders are counted once a week.\n",
    }


def shop(folder: Path) -> Path:
    """The files, written below `folder`."""
    for path, data in shop_files().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def shop_workspace(folder: Path) -> Workspace:
    """The workspace as the builder takes it."""
    shop(folder)
    return Workspace("shop", profile_folder(folder), shop_files())


def _csv(header: list[str], rows: list[list[object]]) -> bytes:
    return "".join(",".join(map(str, row)) + "\n" for row in [header, *rows]).encode()


def proposed(family: Family, workspace: Workspace, count: int) -> list[Draft]:
    """The drafts of the seeds below `count`; seeds without a fit give none."""
    out = []
    for seed in range(count):
        rng = random.Random(seed)
        found = family.propose(workspace.profile, rng, BuildConfig.draw(rng))
        if isinstance(found, Draft):
            out.append(found)
    return out
