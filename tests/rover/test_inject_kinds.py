"""Every kind of defect on packages of every family: what is broken, what is told of it, and what never is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from packages import runtime, summary_package, summary_resources
from workspaces import shop_workspace

from rover.construct.build import Built, attempt
from rover.construct.families.registry import families
from rover.diagnose.inject.compose import compose, together
from rover.diagnose.inject.protocol import Damage, Injector, Truth, Unfit, mask_of, truth
from rover.diagnose.inject.registry import combinations, grouped, injector, injectors
from rover.diagnose.kinds import KINDS as FINDINGS
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, reference_state
from rover_store.ids import COMPONENTS

KINDS = [i.kind for i in injectors()]
TOGETHER = [i.kind for i in combinations()]
FAMILIES = [f.name for f in families()]
SEEDS = range(2)
#: kinds that offer no hold in every family, and where they do
PARTIAL = {
    "leftover_output": {"memo", "reconcile", "summarise"},
    "answer_in_request": {"reconcile", "summarise", "memo"},
    "strict_order": {"memo", "reconcile", "summarise"},
    "strict_columns": {"reconcile", "summarise"},
    "partly_checked": {"edit", "reconcile", "summarise"},
    "flaky_sample": {"reconcile", "summarise"},
    "crash_on_missing": {"memo", "reconcile", "summarise"},
    "forbidden_deliverable": {"edit"},
}


@dataclass(frozen=True)
class Broken:
    """A package with one defect, and what the injector told of it."""

    sound: Env
    env: Env
    damage: Damage
    truth: Truth

    @property
    def changed(self) -> dict[str, bytes]:
        """Every byte that is new: of the package, and of resources."""
        new = {p: d for p, d in self.env.files.items() if self.sound.files.get(p) != d}
        for name, files in self.damage.resources.items():
            old = self.sound.resources.get(name, {})
            new |= {f"resources/{name}/{p}": d for p, d in files.items() if old.get(p) != d}
        return new


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    box = runtime()
    with Engine(box, workers=2) as made:
        yield made
    box.close()


@pytest.fixture(scope="module")
def packages(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Env, ...]]:
    """Two packages of each family, as the builder makes them."""
    workspace = shop_workspace(tmp_path_factory.mktemp("shop"))
    found: dict[str, tuple[Env, ...]] = {}
    for family in families():
        made: list[Env] = []
        for number in range(16):
            outcome = attempt(engine, workspace, family, number, 1).outcome
            if isinstance(outcome, Built):
                made.append(env_from_files(outcome.files, outcome.resources))
            if len(made) == 2:
                break
        found[family.name] = tuple(made)
    assert all(found.values())
    return found


def broken(env: Env, how: Injector, seed: int) -> Broken:
    damage = how.inject(env, seed)
    after = env_from_files(damage.applied(env.files), {**env.resources, **damage.resources})
    return Broken(env, after, damage, truth(how, damage))


_TRIED: dict[str, list[Broken]] = {}


def tried(packages: Mapping[str, tuple[Env, ...]], kind: str) -> list[Broken]:
    """What the kind does wherever it finds a hold; made once, and never changed."""
    if kind in _TRIED:
        return _TRIED[kind]
    out = _TRIED[kind] = []
    for env in (e for envs in packages.values() for e in envs):
        for seed in SEEDS:
            try:
                out.append(broken(env, injector(kind), seed))
            except Unfit:
                continue
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_fits_the_families_it_is_for(packages: Mapping[str, tuple[Env, ...]], kind: str) -> None:
    fits = {one.sound.record.family for one in tried(packages, kind)}
    assert fits, f"{kind} fits no package"
    assert fits <= PARTIAL.get(kind, set(FAMILIES))


@pytest.mark.parametrize("kind", [*KINDS, *TOGETHER])
def test_what_is_told_is_what_was_done(packages: Mapping[str, tuple[Env, ...]], kind: str) -> None:
    how = injector(kind)
    known = {k.name for k in FINDINGS}
    for one in tried(packages, kind):
        assert one.changed or set(one.sound.files) != set(one.env.files)
        touched = {p.partition("/")[0] for p in one.changed} | {p.partition("/")[0] for p in one.damage.files}
        touched = {"context" if p == "resources" else p for p in touched}
        if "stale_anchor" not in kind:  # there the data was rightly brought up to date: V is what is behind
            assert set(one.truth.components) <= touched
        assert {c for _, c in one.truth.expects} <= set(COMPONENTS)
        assert {k for k, _ in one.truth.expects} <= known
        assert bool(one.truth.right) == how.fixable == one.truth.fixable
        # a repair of the components at fault is always among the right ones
        if how.fixable:
            assert mask_of(one.truth.components) in one.truth.right
        assert one.damage.note


@pytest.mark.parametrize("kind", [*KINDS, *TOGETHER])
def test_nothing_that_changed_names_the_kind(packages: Mapping[str, tuple[Env, ...]], kind: str) -> None:
    words = {w for k in kind.split("+") for w in (k, k.replace("_", " "), k.replace("_", "-"), k.replace("_", ""))}
    findings = {k.name for k in FINDINGS}
    for one in tried(packages, kind):
        for path, data in one.changed.items():
            if path.endswith(".xlsx"):
                continue
            text = f"{path}\n{data.decode('utf-8', 'replace')}".lower()
            old = one.sound.files.get(path, b"").decode("utf-8", "replace").lower()
            said = [w for w in words | findings if "_" in w or " " in w or "-" in w if w in text and w not in old]
            assert not said, (path, said)
            assert not re.search(r"\b(inject|defect|sabotage|damage|broken|on purpose)", text.replace(old, ""))


@pytest.mark.parametrize("kind", [*KINDS, TOGETHER[0], TOGETHER[-1]])
def test_the_same_seed_does_the_same(packages: Mapping[str, tuple[Env, ...]], kind: str) -> None:
    for envs in packages.values():
        try:
            first, again = (injector(kind).inject(envs[0], 7) for _ in range(2))
        except Unfit:
            continue
        assert (first.files, first.resources, first.note) == (again.files, again.resources, again.note)


def test_seeds_make_a_kind_various(packages: Mapping[str, tuple[Env, ...]]) -> None:
    """Most kinds have more than one way to be there."""
    env = packages["reconcile"][0]
    ways = {}
    for kind in KINDS:
        notes = set()
        for seed in range(12):
            try:
                notes.add(injector(kind).inject(env, seed).note)
            except Unfit:
                continue
        ways[kind] = len(notes)
    assert sum(n > 1 for n in ways.values()) >= 0.8 * sum(n > 0 for n in ways.values())


def test_checks_that_were_changed_still_compile(packages: Mapping[str, tuple[Env, ...]]) -> None:
    for kind in KINDS:
        for one in tried(packages, kind):
            for path, data in one.changed.items():
                if path.startswith("verifier/checks/"):
                    compile(data, path, "exec")


@pytest.mark.parametrize("kind", ["lost_input", "emptied_input", "lost_given"])
def test_what_is_lost_is_lost(packages: Mapping[str, tuple[Env, ...]], kind: str) -> None:
    for one in tried(packages, kind):
        left = {**one.env.files, **{p: d for n, fs in one.damage.resources.items() for p, d in fs.items()}}
        if kind == "lost_given":
            name = one.damage.note.split()[0]
            value = next(g.value for g in one.sound.contract.givens if g.name == name)
            assert all(g.value != value for g in one.env.contract.givens if g.name == name)
            assert not any(a.value.rows for a in one.env.anchors.anchors)
            assert reference_state(one.env) == one.env.start
            continue
        bound = {f"{r.kind}/{r.name}" for r in one.env.context.resources}
        assert not set(one.damage.gone) & bound
        for name in one.damage.gone:
            versions = {e.version for e in one.env.record.edges}
            assert not versions & {r.tree for r in one.sound.context.resources if f"{r.kind}/{r.name}" == name}
        gone = set(one.sound.start) - set(one.env.start) | {
            p for p in one.env.start if one.sound.start.get(p) != one.env.start[p]
        }
        lost = {one.sound.start[p] for p in gone}
        assert lost
        assert not lost & set(left.values())


def test_kinds_are_many_and_of_all_components() -> None:
    groups = {g: [k.kind for k in found] for g, found in grouped(injectors()).items()}
    assert set(groups) == {*COMPONENTS, "several components", "nothing repairs it"}
    single = [k for g in COMPONENTS for k in groups[g]]
    assert len(single) >= 40
    assert min(len(groups[c]) for c in COMPONENTS) >= 5
    assert len(groups["nothing repairs it"]) >= 3
    assert len(set(KINDS)) == len(KINDS)


def test_pairs_and_triples_join_what_their_parts_say() -> None:
    pair = compose(injector("missing_given"), injector("tool_removed"))
    assert pair.kind == "missing_given+tool_removed"
    assert pair.expects == (("missing_given", "task"), ("tool_removed", "harness"))
    assert (pair.components, pair.right, pair.fixable) == (("task", "harness"), (6,), True)
    assert injector("changed_data+tool_removed").right == (5, 12)
    assert together([(1, 8), (2,), (4,)]) == (7, 14)
    assert not injector("lost_given+tool_removed").fixable
    assert not injector("lost_given+tool_removed").right
    sizes = {len(k.split("+")) for k in TOGETHER}
    assert sizes == {2, 3}
    for how in combinations():
        assert len(how.components) >= 2 or how.kind == "misnamed_input+old_name_read"


def test_a_part_without_a_hold_leaves_no_half_a_defect() -> None:
    env = env_from_files(summary_package(), summary_resources())
    with pytest.raises(Unfit, match="missing_given"):
        injector("tool_removed+missing_given").inject(env, 0)


def test_a_hand_made_package_is_broken_or_left_alone(packages: Mapping[str, tuple[Env, ...]]) -> None:
    """Checks and contracts that no family wrote: each kind fits, or says why it does not."""
    env = env_from_files(summary_package(), summary_resources())
    fitting = 0
    for kind in KINDS:
        try:
            one = broken(env, injector(kind), 1)  # a package that cannot be read would be an error here
        except Unfit:
            continue
        fitting += 1
        assert one.changed or set(one.env.files) != set(env.files)
    assert fitting >= 25
