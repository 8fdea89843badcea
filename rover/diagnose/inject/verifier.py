"""Defects of the verifier: too lax, too strict, wrong in a value, blind to a demand, demanding more, or fickle."""

from __future__ import annotations

import ast
import hashlib
import random

from rover.diagnose.inject.protocol import Components, Damage, Expects, Masks, Unfit, V, rng_for
from rover.rollout.env import Env
from rover_store.records import Criterion, Scalar, Table

VERIFIER = "verifier/verifier.json"


class LaxVerifier:
    kind = "lax_verifier"
    summary = "the verifier looks only whether a deliverable exists, so that an attacker passes"
    repair = "V: check what the contract demands"
    expects: Expects = (("lax_verifier", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        how = rng_for(self.kind, seed).choice(_LAX)
        return rewritten(env, about_content(env, self.kind), how, "checks only whether deliverables are there")


class StrictVerifier:
    kind = "strict_verifier"
    summary = "the verifier compares a deliverable byte by byte, so that an equally valid one fails"
    repair = "V: check what the contract demands"
    expects: Expects = (("strict_verifier", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        criteria = [c for c in about_content(env, self.kind) if _reference(env, c) is not None]
        if not criteria:
            raise Unfit(self.kind, "the reference holds no deliverable")
        chosen = rng.sample(criteria, k=rng.randint(1, min(2, len(criteria))))

        def body(criterion: Criterion, path: str) -> str:
            data = _reference(env, criterion) or b""
            return _STRICT.format(path=path, digest=hashlib.sha256(data).hexdigest())

        return rewritten(env, chosen, body, "compares deliverables byte by byte")


class WrongAnchor:
    kind = "wrong_anchor"
    summary = "an expected value is wrong"
    repair = "V: derive the anchors again"
    expects: Expects = (("wrong_anchor", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        cells = [
            (number, r, c)
            for number, anchor in enumerate(env.anchors.anchors)
            for r, row in enumerate(anchor.value.rows)
            for c, cell in enumerate(row)
            if cell is not None and not isinstance(cell, bool)
        ]
        if not cells:
            raise Unfit(self.kind, "no anchor holds a value")
        number, r, c = rng.choice(cells)
        anchor = env.anchors.anchors[number]
        old = anchor.value.rows[r][c]
        assert old is not None
        new = _other(old, rng)
        rows = tuple(
            tuple(new if (i, j) == (r, c) else cell for j, cell in enumerate(row))
            for i, row in enumerate(anchor.value.rows)
        )
        changed = anchor.model_copy(update={"value": Table(columns=anchor.value.columns, rows=rows)})
        anchors = tuple(changed if i == number else a for i, a in enumerate(env.anchors.anchors))
        data = env.anchors.model_copy(update={"anchors": anchors}).dump()
        return Damage({"verifier/anchors.json": data}, f"anchor {anchor.id} says {new} instead of {old}")


class UnscoredRequirement:
    kind = "unscored_requirement"
    summary = "a demand of the contract is scored by no criterion"
    repair = "V: score it"
    expects: Expects = (("unscored_requirement", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        if len(env.verifier.criteria) < 2:
            raise Unfit(self.kind, "the verifier has a single criterion")
        gone = rng_for(self.kind, seed).choice(env.verifier.criteria)
        criteria = tuple(c for c in env.verifier.criteria if c.requirement != gone.requirement)
        data = env.verifier.model_copy(update={"criteria": criteria}).dump()
        return Damage({VERIFIER: data}, f"the criterion of {gone.requirement} is gone")


class ExtraDemand:
    kind = "extra_demand"
    summary = "the verifier scores a file that nobody asks for"
    repair = "V: drop the criterion"
    expects: Expects = (("extra_demand", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        path = rng_for(self.kind, seed).choice(("summary_log.txt", "README.md", "notes/method.txt"))
        extra = Criterion(
            id="documented", requirement="documented", paths=(path,), check="checks/extra.py:documented", critical=True
        )
        criteria = (*env.verifier.criteria, extra)
        source = f'def documented(ev):\n    return (1.0 if ev.end("{path}").is_file() else 0.0), "a log"\n'
        files = {
            VERIFIER: env.verifier.model_copy(update={"criteria": criteria}).dump(),
            "verifier/checks/extra.py": source.encode(),
        }
        return Damage(files, f"the verifier also wants {path}")


class FlakyVerifier:
    kind = "flaky_verifier"
    summary = "the verifier gives the same work different marks"
    repair = "V: check what the contract demands"
    expects: Expects = (("flaky_verifier", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        criteria = about_content(env, self.kind)
        chosen = rng_for(self.kind, seed).choice(criteria)
        return rewritten(env, [chosen], _by_chance, "flips a coin")


# --- check sources ---------------------------------------------------------------------------------------
def exists(criterion: Criterion, path: str) -> str:
    return f'    return (1.0, "there") if ev.end({path!r}).is_file() else (0.0, "missing")\n'


def _any_size(criterion: Criterion, path: str) -> str:
    return f'    found = ev.end({path!r})\n    return (1.0 if found.exists() else 0.0), "looked for it"\n'


def _by_chance(criterion: Criterion, path: str) -> str:
    return (
        "    import os\n\n"
        f"    there = ev.end({path!r}).is_file()\n"
        '    return (1.0, "there") if there and os.urandom(1)[0] % 2 else (0.0, "not this time")\n'
    )


_LAX = (exists, _any_size)
_STRICT = """    import hashlib

    found = ev.end({path!r})
    if not found.is_file():
        return 0.0, "missing"
    same = hashlib.sha256(found.read_bytes()).hexdigest() == "{digest}"
    return (1.0, "as expected") if same else (0.0, "differs from the golden file")
"""


def about_content(env: Env, kind: str) -> list[Criterion]:
    """Criteria that look into a deliverable."""
    targets = set(env.targets())
    found = [c for c in env.verifier.criteria if c.paths and set(c.paths) <= targets]
    if not found:
        raise Unfit(kind, "no criterion looks into a deliverable")
    return found


def rewritten(env: Env, criteria: list[Criterion], body: object, note: str) -> Damage:
    """The named checks with another body: `body(criterion, path)` gives its lines, indented."""
    assert callable(body)
    sources: dict[str, str] = {}
    for criterion in criteria:
        file, _, function = criterion.check.partition(":")
        source = sources.get(file) or env.verifier_files[file].decode()
        sources[file] = _with_body(source, function, str(body(criterion, criterion.paths[0])))
    files = {f"verifier/{file}": text.encode() for file, text in sources.items()}
    return Damage(files, f"the check of {', '.join(c.requirement for c in criteria)} {note}")


def _with_body(source: str, function: str, body: str) -> str:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            lines = source.splitlines(keepends=True)
            argument = node.args.args[0].arg if node.args.args else "ev"
            head = f"def {function}({argument}):\n"
            text = body if argument == "ev" else body.replace("ev.", f"{argument}.")
            return "".join(lines[: node.lineno - 1]) + head + text + "".join(lines[node.end_lineno :])
    return f"{source.rstrip()}\n\n\ndef {function}(ev):\n{body}"


def _reference(env: Env, criterion: Criterion) -> bytes | None:
    return env.verifier_files.get(f"reference/files/{criterion.paths[0]}") if criterion.paths else None


def _other(value: Scalar, rng: random.Random) -> Scalar:
    if isinstance(value, int):
        return value + rng.choice((1, 2, 10))
    if isinstance(value, float):
        return round(value * rng.choice((1.1, 0.9, 2.0)) + 1, 4)
    return f"{value}x" if isinstance(value, str) else value
