"""Defects of the context: a file that is gone, data that changed under its anchors, an answer left lying about."""

from __future__ import annotations

import csv
import io
import json
import random
import re

from rover.diagnose.demands import contract_sources, sources
from rover.diagnose.inject.protocol import C, Components, Damage, Expects, Masks, Unfit, V, rng_for
from rover.diagnose.runs import mounted
from rover.rollout.env import Env, tree_of
from rover_store.records import Anchor, Context, ContextFile, Query, Table
from rover_store.records.query import Source

CONTEXT = "context/context.json"


class MissingInput:
    kind = "missing_input"
    summary = "a file that the task needs is no longer part of the workspace"
    repair = "C: bind the file again"
    expects: Expects = (("missing_input", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        needed = [p for p in contract_sources(env.contract) if p in env.start]
        if not needed:
            raise Unfit(self.kind, "the contract derives nothing from a file")
        # a file of the package's own that is deleted is lost; one in a resource can be bound again
        shared = [p for p in needed if f"context/files/{p}" not in env.files]
        return _without(env, rng_for(self.kind, seed).choice(shared or needed))


class ChangedData:
    kind = "changed_data"
    summary = "the data of a source file changed after the anchors were taken"
    repair = "V: derive the anchors again; or C: bind the former data again"
    expects: Expects = (("changed_data", "context"),)
    components: Components = ("context",)
    right: Masks = (C, V)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        paths = [p for p in contract_sources(env.contract) if p.endswith((".csv", ".tsv")) and p in env.start]
        rng.shuffle(paths)
        for path in paths:
            data = _changed_table(env, path, rng)
            if data is not None and data != env.start[path]:
                damage = _replaced(env, path, data)
                return Damage(damage.files, f"changed about half of the values in {path}", damage.resources)
        raise Unfit(self.kind, "no csv or tsv source with values that an answer measures")


class LeakedAnswer:
    kind = "leaked_answer"
    summary = "a file of the workspace shows the answer"
    repair = "C: take the file out"
    expects: Expects = (("leaked_answer", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        tables = worth_telling(env)
        if tables and rng.random() < 0.5:
            return with_file(env, f"{rng.choice(('notes', 'handover', 'draft'))}.md", told(rng.choice(tables)))
        return copied(env, rng, self.kind)


def copied(env: Env, rng: random.Random, kind: str) -> Damage:
    """The package with a copy of a deliverable of the reference, as an earlier worker would leave it."""
    made = {
        path.removeprefix("reference/files/"): data
        for path, data in env.verifier_files.items()
        if path.startswith("reference/files/")
    }
    done = [p for p in sorted(made) if p in env.targets()]
    if not done:
        raise Unfit(kind, "the reference holds no deliverable")
    target = rng.choice(done)
    stem, _, ending = target.rpartition("/")[2].rpartition(".")
    return with_file(env, f"{rng.choice(('old', 'archive', 'backup'))}/{stem}_final.{ending}", made[target])


def worth_telling(env: Env) -> list[Anchor]:
    """Anchors that hold figures beside keys, or more than one figure."""
    return [a for a in env.anchors.anchors if a.value.rows and _digits(a.value) >= 5]


def told(anchor: Anchor, start: str = "Worked this out earlier, for later use:") -> bytes:
    """An anchor's rows as somebody would note them."""
    lines = [start, "", " ".join(anchor.value.columns)]
    lines += [" ".join("" if cell is None else str(cell) for cell in row) for row in anchor.value.rows]
    return ("\n".join(lines) + "\n").encode()


def with_file(env: Env, path: str, data: bytes) -> Damage:
    """The package with one more file of its own."""
    if path in env.start:
        raise Unfit("leaked_answer", f"{path} exists already")
    listed = ContextFile(path=path, access="protected", role="distractor")
    context = env.context.model_copy(update={"files": (*env.context.files, listed)})
    return Damage({CONTEXT: context.dump(), f"context/files/{path}": data}, f"added {path}, which shows an answer")


def _without(env: Env, path: str) -> Damage:
    own = f"context/files/{path}"
    if own in env.files:
        return Damage({own: None}, f"deleted {path}")
    kept = tuple(r for r in env.context.resources if path not in mounted(env, r))
    context = env.context.model_copy(update={"resources": kept})
    return Damage({CONTEXT: context.dump()}, f"unbound the resource that holds {path}")


def _replaced(env: Env, path: str, data: bytes) -> Damage:
    """New bytes for one file of the workspace: in the package, or in the resource that holds it."""
    own = f"context/files/{path}"
    if own in env.files:
        return Damage({own: data}, "")
    for number, ref in enumerate(env.context.resources):
        name = f"{ref.kind}/{ref.name}"
        inside = mounted(env, ref).get(path)
        if inside is None:
            continue
        tree = {**env.resources[name], inside: data}
        bound = ref.model_copy(update={"tree": tree_of(tree)})
        refs = (*env.context.resources[:number], bound, *env.context.resources[number + 1 :])
        context: Context = env.context.model_copy(update={"resources": refs})
        return Damage({CONTEXT: context.dump()}, "", {name: tree})
    raise Unfit("changed_data", f"{path} lies in no resource of the package")


def _changed_table(env: Env, path: str, rng: random.Random) -> bytes | None:
    """The table with about half of the values that answers measure changed; without such values, with rows less."""
    try:
        text = env.start[path].decode("utf-8")
    except UnicodeDecodeError:
        return None
    mark = "\t" if path.endswith(".tsv") else csv.Sniffer().sniff(text[:4000], ",;|\t").delimiter
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    if len(rows) < 4:
        return None
    columns = [i for i, name in enumerate(rows[0]) if name in _measured(env, path)]
    numeric = [i for i in columns if sum(_is_number(r[i]) for r in rows[1:] if i < len(r)) * 2 > len(rows)]
    if numeric:
        at = rng.choice(numeric)
        for row in rows[1:]:
            if at < len(row) and _is_number(row[at]) and rng.random() < 0.5:
                row[at] = _other_number(row[at], rng)
    else:
        keep = [row for row in rows[1:] if rng.random() < 0.6]
        rows = [rows[0], *(keep or rows[1:2])]
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=mark, lineterminator="\r\n" if "\r\n" in text else "\n").writerows(rows)
    return out.getvalue().encode()


def _measured(env: Env, path: str) -> set[str]:
    """Columns of the file that some answer adds up, averages or calculates with."""
    found: set[str] = set()
    for anchor in env.anchors.anchors:
        if any(s.path == path for s in sources(anchor.query)):
            found |= _measured_by(anchor.query)
    return found


def _measured_by(query: Query) -> set[str]:
    own = {m.column for m in query.measures if m.column and m.fn in ("sum", "mean", "min", "max")}
    own |= {d.left for d in query.derived} | {d.right for d in query.derived if isinstance(d.right, str)}
    for join in query.joins:
        if not isinstance(join.right, Source):
            own |= _measured_by(join.right)
    return own


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", cell.strip()) is not None


def _other_number(cell: str, rng: random.Random) -> str:
    """Another number in the same form, near enough that the table keeps its shape."""
    decimals = len(cell.strip().partition(".")[2])
    if not decimals:
        return str(int(cell) + rng.choice((1, 2)))
    return f"{float(cell) * rng.choice((1.02, 1.05, 1.1)) + 10.0**-decimals:.{decimals}f}"


def _digits(table: Table) -> int:
    numbers = [c for row in table.rows for c in row if isinstance(c, int | float) and not isinstance(c, bool)]
    return sum(len(json.dumps(abs(n)).replace(".", "").strip("0")) for n in numbers)
