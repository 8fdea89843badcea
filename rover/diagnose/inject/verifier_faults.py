"""Defects of a verifier that does not always answer, or not always the same."""

from __future__ import annotations

from rover.diagnose.inject.checks import about_content, all_pairs, prefixed, reference_of, rewritten, tail
from rover.diagnose.inject.protocol import Components, Damage, Expects, Masks, Unfit, V, rng_for
from rover.rollout.env import Env
from rover_store.records import Criterion

_FLAKY: Expects = (("flaky_verifier", "verifier"),)


class FlakyVerifier:
    kind = "flaky_verifier"
    summary = "the verifier gives the same work different marks, by chance"
    repair = "V: check what the contract demands"
    expects: Expects = _FLAKY
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        criteria = about_content(env, self.kind)
        chosen = rng_for(self.kind, seed).choice(criteria)
        return rewritten(env, [chosen], _by_chance, "flips a coin")


class FlakySample:
    kind = "flaky_sample"
    summary = "the verifier compares a sample that it draws anew each time, without a seed"
    repair = "V: compare everything"
    expects: Expects = _FLAKY
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        found = [p for p in all_pairs(env, self.kind) if len(set(p.expected)) > 1 and len(p.expected) <= 12]
        if not found:
            raise Unfit(self.kind, "no criterion compares a few different values")
        chosen = rng.choice(found)
        draw = rng.choice((_SHUFFLED, _SAMPLED))
        lines = "    import random\n\n" + chosen.lines + draw
        return rewritten(env, [chosen.criterion], lambda c, p: lines, "compares a sample drawn anew")


class FlakyClock:
    kind = "flaky_clock"
    summary = "the verifier's mark depends on the time at which it runs"
    repair = "V: check what the contract demands"
    expects: Expects = _FLAKY
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        chosen = rng.choice(about_content(env, self.kind))
        what = rng.choice((
            "int(time.time() * 1000) % 2", "time.time_ns() // 1000 % 3 == 0", "time.perf_counter_ns() // 100 % 2",
        ))  # fmt: skip
        head = _CLOCK.format(what=what)
        return prefixed(env, [chosen], lambda c, p: head, "looks at the clock")


class VerifierCrash:
    kind = "verifier_crash"
    summary = "the verifier crashes on valid work"
    repair = "V: check what the contract demands"
    expects: Expects = (("verifier_crash", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        ways = []
        for p in all_pairs(env, self.kind):
            if any(not float(n).is_integer() for n in p.numbers):
                ways.append((p, "all(int(rc.plain(found)) == int(value) for found, value in pairs)"))
            if p.texts:
                ways.append((p, "all(float(found) == float(value) for found, value in pairs)"))
                ways.append((p, 'all(found.split(" (")[1] == value.split(" (")[1] for found, value in pairs)'))
            if p.numbers:
                ways.append((p, "all(found.strip().replace(',', '.') / 1 == value for found, value in pairs)"))
                ways.append((p, "all(value / (found - found) for found, value in pairs)"))
        if not ways:
            raise Unfit(self.kind, "no value is compared")
        chosen, test = rng.choice(ways)
        lines = f"{chosen.lines}    good = {test}\n" + tail("good", "not as expected")
        return rewritten(env, [chosen.criterion], lambda c, p: lines, f"crashes: {test}")


class CrashOnMissing:
    kind = "crash_on_missing"
    summary = "the verifier crashes where a deliverable is missing or empty, in place of failing it"
    repair = "V: a deliverable that is not there fails"
    expects: Expects = (("verifier_crash", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        new = {d.path for d in env.contract.deliverables if not d.in_place}
        found = [c for c in about_content(env, self.kind) if set(c.paths) <= new and reference_of(env, c)]
        if not found:
            raise Unfit(self.kind, "no deliverable can be missing")
        chosen = rng.choice(found)
        opened = rng.choice((
            "    size = ev.end({path!r}).stat().st_size\n    share = 1000 / size\n",
            "    head = open(ev.end({path!r}), \"rb\").read(400)\n    first = head[0]\n",
        ))  # fmt: skip
        note = "crashes where the deliverable is missing"
        return prefixed(env, [chosen], lambda c, p: opened.format(path=p), note)


def _by_chance(criterion: Criterion, path: str) -> str:
    return (
        "    import os\n\n"
        f"    there = ev.end({path!r}).is_file()\n"
        '    return (1.0, "there") if there and os.urandom(1)[0] % 2 else (0.0, "not this time")\n'
    )


_SHUFFLED = """    found, wanted = [f for f, _ in pairs], [v for _, v in pairs]
    random.shuffle(found)
    return (1.0, "as expected") if rc.same(found[0], wanted[0], None, 0.06) else (0.0, "not as expected")
"""
_SAMPLED = """    (found, _), (_, value) = random.choice(pairs), random.choice(pairs)
    return (1.0, "as expected") if rc.same(found, value, None, 0.06) else (0.0, "not as expected")
"""
_CLOCK = """    import time

    if {what}:
        return 0.0, "not settled yet"
"""
