"""What the cases of a suite say together: every measure of the method, each with an interval clustered by workspace.

Rows are what a run of the bench keeps: `facts` from the manifest, `result` from the worker (None where it gave none).
A defect counts in every denominator, also where nobody diagnosed it, nobody proposed for it, or it broke off. Sound
packages and defects that no edit can repair stand apart: the right answer there is to change nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rover.bench.intervals import Estimate, mean, paired, ratio
from rover.repair.fcr import LETTERS, letters

Row = dict[str, Any]
METHODS = ("fcr", "apply-all", "greedy", "local-only", "no-op")
APART = "regenerate"
COMPONENTS = ("context", "task", "harness", "verifier")
#: bins of stated confidence
BINS = ((0.0, 0.5), (0.5, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 1.0))


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Everything, as JSON."""
    methods = [m for m in (*METHODS, APART) if any(m in r["result"]["methods"] for r in rows if r["result"])]
    return {
        "cases": dict(Counter(r["facts"]["label"] for r in rows)),
        "workspaces": len({r["facts"]["workspace"] for r in rows}),
        "errors": sum(r["result"] is None for r in rows),
        "verdicts": verdicts(rows),
        "methods": {m: method(rows, m) for m in methods},
        "paired": {m: versus(rows, m) for m in methods if m != "fcr"},
        "kinds": (kinds := by_kind(rows, methods)),
        "mean_over_kinds": over_kinds(kinds),
        "joint": joint(rows),
        "historical": historical(rows),
        "diagnosis": diagnosis(rows),
        "sources": by_source(rows),
        "reliability": reliability(rows),
        "lazy": lazy(rows),
        "cost": cost(rows),
    }


# --- who counts ------------------------------------------------------------------------------------------
def eligible(rows: Iterable[Row]) -> list[Row]:
    """Every environment defect that an edit can repair."""
    return [r for r in rows if r["facts"]["label"] == "defect"]


def apart(rows: Iterable[Row], label: str) -> list[Row]:
    return [r for r in rows if r["facts"]["label"] == label]


def spaces(rows: Iterable[Row]) -> list[str]:
    return [r["facts"]["workspace"] for r in rows]


def said(row: Row, name: str) -> dict[str, Any]:
    """What a method made of a case; empty where the case broke off."""
    found: dict[str, Any] = row["result"]["methods"].get(name, {}) if row["result"] else {}
    return found


def safe(row: Row, name: str) -> bool:
    return bool(said(row, name).get("safe"))


def changed(row: Row, name: str) -> bool:
    return bool(said(row, name).get("changed"))


def covers(row: Row, name: str) -> bool:
    """Whether all that some right repair edits was edited or made again. Gates do not ask this: they cannot know."""
    touched = int(said(row, name).get("touched", 0))
    return any(right & touched == right for right in row["facts"]["right"])


def share(rows: Sequence[Row], holds: Callable[[Row], bool]) -> Estimate:
    return mean([float(holds(r)) for r in rows], spaces(rows))


# --- methods ---------------------------------------------------------------------------------------------
def method(rows: Sequence[Row], name: str) -> dict[str, Any]:
    """SRR, what it does wrong, and what it costs relative to FCR."""
    defects = eligible(rows)
    out = {
        "srr": share(defects, lambda r: safe(r, name)),
        "resolved": share(defects, lambda r: said(r, name).get("resolved", False)),
        "intent_change": share(defects, lambda r: changed(r, name) and not said(r, name).get("intent", True)),
        "regression": share(defects, lambda r: changed(r, name) and not said(r, name).get("siblings", True)),
        "unsafe_change": share(defects, lambda r: changed(r, name) and not safe(r, name)),
        "srr_covered": share(defects, lambda r: safe(r, name) and covers(r, name)),
        "right_mask": share(defects, lambda r: said(r, name).get("mask", 0) in r["facts"]["right"]),
        "false_repair": share(apart(rows, "decoy"), lambda r: changed(r, name)),
        "unfixable_changed": share(apart(rows, "unfixable"), lambda r: changed(r, name)),
        "rollouts": relative(defects, name, "rollouts"),
        "tokens": relative(defects, name, "tokens"),
    }
    return {key: value.to_json() for key, value in out.items()}


def relative(rows: Sequence[Row], name: str, what: str) -> Estimate:
    """Cost of a method over that of FCR (1.00) on the cases that came to an end."""
    done = [r for r in rows if said(r, name) and said(r, "fcr")]
    theirs, ours = ([float(said(r, m).get(what, 0)) for r in done] for m in (name, "fcr"))
    return ratio(theirs, ours, spaces(done))


def versus(rows: Sequence[Row], name: str) -> dict[str, Any]:
    """FCR against one method, case by case."""
    defects = eligible(rows)
    ours, theirs = ([safe(r, m) for r in defects] for m in ("fcr", name))
    return paired(ours, theirs, spaces(defects)).to_json()


def verdicts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """How cases of each label were judged, `error` where one broke off; `changed`: packages that FCR changed."""
    out: dict[str, dict[str, int]] = {}
    for row in rows:
        verdict = row["result"]["diagnosis"]["verdict"] if row["result"] else "error"
        counts = out.setdefault(row["facts"]["label"], {"changed": 0})
        counts[verdict] = counts.get(verdict, 0) + 1
        counts["changed"] += changed(row, "fcr")
    return out


def by_kind(rows: Sequence[Row], methods: Sequence[str]) -> dict[str, Any]:
    """Per injected kind, alone and together with others; then single, pair, triple; decoys and the unfixable."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        kinds = row["facts"]["kinds"]
        size = _SIZES.get(len(kinds), "(more kinds)")
        for name in {*kinds, size if row["facts"]["label"] == "defect" else f"({row['facts']['label']})"}:
            groups.setdefault(name, []).append(row)
    return {name: _kind(mine, methods) for name, mine in sorted(groups.items())}


_SIZES = {1: "(one kind)", 2: "(two kinds)", 3: "(three kinds)"}


def _kind(mine: Sequence[Row], methods: Sequence[str]) -> dict[str, Any]:
    alone = [r for r in mine if len(r["facts"]["kinds"]) == 1]
    return {
        "repairable": any(r["facts"]["label"] == "defect" for r in mine),
        "n": len(mine),
        "alone": {"n": len(alone), "fcr": sum(safe(r, "fcr") for r in alone)},
        **{m: sum(safe(r, m) for r in mine) for m in methods},
        "changed": sum(changed(r, "fcr") for r in mine),
        "unsafe": sum(changed(r, "fcr") and not safe(r, "fcr") for r in mine),
        "srr": share(mine, lambda r: safe(r, "fcr")).to_json(),
        "diagnosed": sum(_verdict(r) == "environment" for r in mine),
        "blamed": sum(blamed_rightly(r) for r in mine),
        "kind_found": sum(kind_named(r) for r in mine),
    }


def over_kinds(kinds: dict[str, Any]) -> float | None:
    """The mean over kinds of the SRR of FCR on the cases that have a kind: each kind counts once."""
    found = [k["srr"]["value"] for name, k in kinds.items() if k["repairable"] and not name.startswith("(")]
    return sum(found) / len(found) if found else None


# --- joint edits -----------------------------------------------------------------------------------------
def joint(rows: Sequence[Row]) -> dict[str, Any]:
    """Of the cases that FCR resolved safely, how many need two edits at once; and by pair of components."""
    solved = [r for r in eligible(rows) if safe(r, "fcr")]
    known = [r for r in solved if r["result"].get("joint") is not None]
    out: dict[str, Any] = {"all": share(known, lambda r: r["result"]["joint"]).to_json(), "combinations": {}}
    for row in known:
        counts = out["combinations"].setdefault(letters(said(row, "fcr")["mask"]), {"resolved": 0, "joint": 0})
        counts["resolved"] += 1
        counts["joint"] += bool(row["result"]["joint"])
    pairs = {}
    for at, (bit, one) in enumerate(LETTERS):
        for other_bit, other in LETTERS[at + 1 :]:
            both = bit | other_bit
            broken = [r for r in known if both & _fault(r) == both]
            pairs[one + other] = {"at_fault": len(broken), "joint": sum(bool(r["result"]["joint"]) for r in broken)}
    out["pairs"] = pairs
    return out


def _fault(row: Row) -> int:
    bits = dict(zip(COMPONENTS, (bit for bit, _ in LETTERS), strict=True))
    return sum({bits[c] for c in row["facts"]["components"]})


def historical(rows: Sequence[Row]) -> dict[str, Any]:
    """Where people's own repair lies beside the suite: how often FCR edits the very components that they did."""
    known = [r for r in eligible(rows) if r["facts"].get("historical")]
    agree = share(known, lambda r: said(r, "fcr").get("mask", 0) == r["facts"]["historical"])
    return {"agreement": agree.to_json(), "chosen": sum(changed(r, "fcr") for r in known)}


# --- diagnosis -------------------------------------------------------------------------------------------
def diagnosis(rows: Sequence[Row]) -> dict[str, Any]:
    """Verdict, component and kind over all defects that were put in, undiagnosed ones being wrong."""
    defects = [r for r in rows if r["facts"]["label"] != "decoy"]
    single = [r for r in defects if len(set(r["facts"]["components"])) == 1]
    return {
        "verdict": share(defects, lambda r: _verdict(r) == "environment").to_json(),
        "decoy_verdict": share(apart(rows, "decoy"), lambda r: _verdict(r) != "environment").to_json(),
        "component": share(defects, blamed_rightly).to_json(),
        "component_wide": share(defects, blamed_usefully).to_json(),
        "components_all": share(defects, all_blamed).to_json(),
        "kind_first": share(defects, kind_first).to_json(),
        "kind_named": share(defects, kind_named).to_json(),
        "components": confusion((r["facts"]["components"][0], (_blamed(r) or ["none"])[0]) for r in single),
        "kinds": confusion(pair for r in defects for pair in _kind_pairs(r)),
    }


def _verdict(row: Row) -> str:
    return str(row["result"]["diagnosis"]["verdict"]) if row["result"] else "error"


def _blamed(row: Row) -> list[str]:
    if _verdict(row) != "environment":
        return []
    found: list[str] = row["result"]["diagnosis"]["blamed"]
    return found


def blamed_rightly(row: Row) -> bool:
    """The component blamed first is one that was broken."""
    return bool(_blamed(row)) and _blamed(row)[0] in row["facts"]["components"]


def blamed_usefully(row: Row) -> bool:
    """The component blamed first was broken, or belongs to a repair that is right."""
    bits = dict(zip(COMPONENTS, (bit for bit, _ in LETTERS), strict=True))
    first = _blamed(row)[:1]
    return blamed_rightly(row) or any(bits[c] & mask for c in first for mask in row["facts"]["right"])


def all_blamed(row: Row) -> bool:
    """As many components as were broken, the first ones blamed, are those that were broken."""
    broken = set(row["facts"]["components"])
    return set(_blamed(row)[: len(broken)]) == broken


def _found_kinds(row: Row) -> list[str]:
    if not row["result"]:
        return []
    findings = row["result"]["diagnosis"]["findings"]
    return list(dict.fromkeys(f["kind"] for f in findings if f["status"] == "confirmed"))


def kind_first(row: Row) -> bool:
    """The first confirmed finding is of an expected kind."""
    return bool(set(_found_kinds(row)[:1]) & _expected(row))


def kind_named(row: Row) -> bool:
    """Every expected kind is among the confirmed ones; of kinds that name one component any will do."""
    found = set(_found_kinds(row))
    by_component: dict[str, set[str]] = {}
    for one in row["facts"]["expects"]:
        by_component.setdefault(one["component"], set()).add(one["kind"])
    return bool(by_component) and all(kinds & found for kinds in by_component.values())


def _expected(row: Row) -> set[str]:
    return {one["kind"] for one in row["facts"]["expects"]}


def _kind_pairs(row: Row) -> list[tuple[str, str]]:
    """(expected, found): itself where it is named, else what is named first and was not expected."""
    found = _found_kinds(row)
    strange = [k for k in found if k not in _expected(row)]
    other = (strange or ["another expected"])[0] if found else f"({_verdict(row)})"
    return [(kind, kind if kind in found else other) for kind in sorted(_expected(row))]


def confusion(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """True -> said -> how often."""
    out: dict[str, dict[str, int]] = {}
    for true, named in sorted(pairs):
        counts = out.setdefault(true, {})
        counts[named] = counts.get(named, 0) + 1
    return out


def reliability(rows: Sequence[Row]) -> dict[str, Any]:
    """How often findings, and blame, were right where they said how sure they are."""
    findings, blame = [], []
    for row in rows:
        if not row["result"]:
            continue
        found = row["result"]["diagnosis"]
        kinds = _expected(row)
        findings += [
            (float(f["confidence"]), f["kind"] in kinds)
            for f in found["findings"]
            if f["confidence"] is not None and f["status"] == "confirmed"
        ]
        if found["blame"]:
            first = found["blamed"][0]
            blame.append((float(found["blame"][first]), first in row["facts"]["components"]))
    return {"findings": binned(findings), "blame": binned(blame)}


def binned(pairs: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Bins with count, mean confidence and share right; the Brier score, and the gap weighted by count."""
    rows = []
    for low, high in BINS:
        mine = [(p, ok) for p, ok in pairs if low <= p < high or (p == high == 1.0)]
        if mine:
            said_, right = sum(p for p, _ in mine) / len(mine), sum(ok for _, ok in mine) / len(mine)
            rows.append({"low": low, "high": high, "n": len(mine), "confidence": said_, "right": right})
    n = len(pairs)
    return {
        "bins": rows,
        "n": n,
        "brier": sum((p - ok) ** 2 for p, ok in pairs) / n if n else None,
        "gap": sum(r["n"] * abs(r["confidence"] - r["right"]) for r in rows) / n if n else None,
    }


# --- proposers, laziness, cost ---------------------------------------------------------------------------
def by_source(rows: Sequence[Row]) -> dict[str, Any]:
    """By proposer: cases for which it proposed, in which its proposal was chosen, and that were resolved with it."""
    out: dict[str, Any] = {}
    defects = eligible(rows)
    for row in defects:
        proposals = row["result"]["proposals"] if row["result"] else []
        bits = dict(zip(COMPONENTS, (bit for bit, _ in LETTERS), strict=True))
        mask = said(row, "fcr").get("mask", 0)
        for source in sorted({p["source"] for p in proposals}):
            chosen = any(bits[p["component"]] & mask for p in proposals if p["source"] == source)
            counts = out.setdefault(source, {"proposed": 0, "chosen": 0, "resolved": 0})
            counts["proposed"] += 1
            counts["chosen"] += chosen
            counts["resolved"] += chosen and safe(row, "fcr")
    for counts in out.values():
        counts["share"] = counts["resolved"] / len(defects)
    return out


def lazy(rows: Sequence[Row]) -> dict[str, Any]:
    """Lazy against exhaustive where both were run: the same choice, and the rollouts of selection."""
    both = [r for r in rows if r["result"] and r["result"].get("exhaustive")]
    deep = [r for r in both if safe(r, "fcr") and len(r["result"]["proposals"]) >= 3]

    def saved(mine: Sequence[Row]) -> dict[str, Any]:
        some, every = ([float(_selection(r, w)) for r in mine] for w in ("lazy", "exhaustive"))
        return ratio(some, every, spaces(mine)).to_json()

    return {
        "cases": len(both),
        "differ": [r["facts"]["id"] for r in both if r["result"]["selected"] != r["result"]["exhaustive"]["selected"]],
        "all": saved(both),
        "deep": saved(deep),
        "deep_cases": len(deep),
    }


def _selection(row: Row, which: str) -> int:
    found = row["result"]["rollouts"]["selection"] if which == "lazy" else row["result"]["exhaustive"]["rollouts"]
    return int(found)


def cost(rows: Sequence[Row]) -> dict[str, Any]:
    """Seconds of lazy FCR alone (diagnosis to audit), and the most memory a worker held, in MB."""
    done = [r for r in rows if r["result"]]
    seconds = [r["result"]["seconds"]["fcr"] for r in done]
    replayed = [r["result"]["seconds"]["fcr"] for r in done if "lattice" in r["result"]]
    return {
        "seconds_a_case": sum(seconds) / len(seconds) if seconds else None,
        "seconds_with_replay": sum(replayed) / len(replayed) if replayed else None,
        "worker_cpu_seconds": sum(r["result"]["cpu"] for r in done),
        "rollouts_a_case": sum(r["result"]["rollouts"]["all"] for r in done) / len(done) if done else None,
        "memory_mb": max((r["result"]["memory"] for r in done), default=None),
    }
