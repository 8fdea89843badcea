"""A bench as a page that stands by itself: tables, bars, every case; pictures beside it where matplotlib is there."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from rover.bench import pictures
from rover.bench.pictures import Bar
from rover.repair.fcr import letters

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1a202c}
table{border-collapse:collapse;margin:1rem 0;font-size:13px}
th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #e2e8f0;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.bar{position:relative;background:#edf2f7;height:1rem;width:18rem}
.bar i{position:absolute;left:0;top:0;bottom:0;background:#2b6cb0}
.bar b{position:absolute;top:.4rem;height:.2rem;background:#1a202c}
.no{color:#9b2c2c}
"""


def write(folder: Path, value: dict[str, Any]) -> list[Path]:
    """index.html, and the pictures that can be drawn. `value` is the JSON of a bench."""
    folder.mkdir(exist_ok=True)
    made = []
    if pictures.available():
        made += _pictures(folder, value)
    page = folder / "index.html"
    page.write_text(html(value), encoding="utf-8")
    return [page, *made]


def html(value: dict[str, Any]) -> str:
    """The page. Equal values give equal bytes."""
    s = value["summary"]
    title = f"rover bench fcr: {value['suite']}, {value['split']} split"
    counts = ", ".join(f"{n} {label}" for label, n in sorted(s["cases"].items()))
    lines = [
        "<!doctype html><meta charset=utf-8>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(counts)} in {s['workspaces']} workspaces. Intervals are 95 %, clustered by workspace.</p>",
        "<h2>Safe resolution rate by method</h2>",
        _bars(method_bars(s)),
        "<h2>FCR case by case against each method</h2>",
        _table(
            ("method", "wins", "losses", "ties", "points"),
            [(m, p["wins"], p["losses"], p["ties"], _points(p["difference"])) for m, p in s["paired"].items()],
        ),
        "<h2>Safe resolution rate of FCR by kind</h2>",
        _bars(kind_bars(s)),
        "<h2>Cases</h2>",
        _table(_HEAD, [_case(r) for r in value["cases"]]),
    ]
    return "\n".join(lines) + "\n"


def method_bars(s: dict[str, Any]) -> list[Bar]:
    return [_bar(name, m["srr"], strong=name == "fcr") for name, m in s["methods"].items() if m["srr"]["n"]]


def kind_bars(s: dict[str, Any]) -> list[Bar]:
    """Kinds that can be repaired, the hardest first."""
    found = [(name, k) for name, k in s["kinds"].items() if k["repairable"] and not name.startswith("(")]
    found.sort(key=lambda pair: (pair[1]["srr"]["value"] or 0.0, pair[0]))
    return [
        Bar(name, 100 * (k["srr"]["value"] or 0.0), note=f"{k['fcr']} of {k['n']}", strong=True) for name, k in found
    ]


def _pictures(folder: Path, value: dict[str, Any]) -> list[Path]:
    s, made = value["summary"], []
    where = f"{value['suite']}, {value['split']} split"
    methods, kinds = method_bars(s), kind_bars(s)
    if methods:
        n = s["methods"]["fcr"]["srr"]["n"]
        title = f"Safe resolution rate by method ({where}, n = {n})"
        made += pictures.bars(methods, title, "per cent, 95 % interval by workspace", folder / "methods")
    if kinds:
        title = f"Safe resolution rate of FCR by kind ({where})"
        made += pictures.bars(kinds, title, "per cent", folder / "kinds")
    return made


def _bar(name: str, found: dict[str, Any], *, strong: bool) -> Bar:
    low, high = (None if found[k] is None else 100 * found[k] for k in ("low", "high"))
    return Bar(name, 100 * (found["value"] or 0.0), low, high, strong=strong)


def _bars(rows: Sequence[Bar]) -> str:
    out = ["<table>"]
    for row in rows:
        span = ""
        text = row.note or f"{row.value:.1f} %"
        if row.low is not None and row.high is not None:
            span = f'<b style="left:{row.low:.1f}%;width:{row.high - row.low:.1f}%"></b>'
            text += f" [{row.low:.1f}, {row.high:.1f}]"
        bar = f'<div class=bar><i style="width:{row.value:.1f}%"></i>{span}</div>'
        out.append(f"<tr><td>{escape(row.name)}<td>{bar}<td>{escape(text)}")
    return "\n".join([*out, "</table>"])


_HEAD = ("case", "package", "kind", "verdict", "chosen", "right", "FCR", "all", "greedy", "local", "why")


def _case(row: dict[str, Any]) -> tuple[str, ...]:
    facts, result = row["facts"], row["result"]
    kinds = "+".join(facts["kinds"]) or facts["label"]
    right = " or ".join(letters(m) for m in facts["right"]) or "-"
    if result is None:
        return (facts["id"], facts["package"], kinds, "broke off", "", right, "", "", "", "", row["error"])
    methods = result["methods"]
    marks = [_mark(methods.get(m)) for m in ("fcr", "apply-all", "greedy", "local-only")]
    chosen = letters(result["selected"]) if result["selected"] else "-"
    verdict = result["diagnosis"]["verdict"]
    return (facts["id"], facts["package"], kinds, verdict, chosen, right, *marks, result["reason"])


def _mark(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    if found["safe"]:
        return "safe"
    return "unsafe" if found["changed"] else "unchanged"


def _points(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "-"
    text = f"{100 * found['value']:+.1f}"
    return text if found["low"] is None else f"{text} [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}]"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    out = ["<table><tr>" + "".join(f"<th>{escape(h)}" for h in head)]
    for row in rows:
        out.append("<tr>" + "".join(f"<td{_class(c)}>{escape(str(c))}" for c in row))
    return "\n".join([*out, "</table>"])


def _class(cell: object) -> str:
    return " class=n" if isinstance(cell, int) else " class=no" if cell == "unsafe" else ""
