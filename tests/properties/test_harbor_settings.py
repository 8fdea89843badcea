"""Any task.toml that Harbor's schema takes goes into a package's parts and records, and comes out the same."""

from __future__ import annotations

from typing import Any

import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from rover.port.harbor import config as configs
from rover.port.harbor import split
from rover.port.harbor.about import Origin
from rover.port.harbor.package import make
from rover.port.harbor.restore import restore
from rover.port.harbor.tree import Item
from rover.port.harbor.values import from_json, same, to_json

keys = st.text("abcxyz_-$", min_size=1, max_size=6)
scalars = st.one_of(
    st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.text(max_size=12),
    st.datetimes(), st.dates(), st.times(),
)  # fmt: skip
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
texts = st.text("ab /${}:-A", max_size=10)
variables = st.dictionaries(st.text("AB_", min_size=1, max_size=3), texts, max_size=3)
numbers = st.sampled_from([0, 1, 60, 60.0, 600.0, 600, 900.0, 1800.0, 1800, 0.5, 1e9])


def table(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    odd = st.dictionaries(st.just("odd") | st.just("strange"), values, max_size=1)
    own = st.fixed_dictionaries({}, optional=fields)
    return st.builds(lambda a, b: {**b, **a}, own, odd)


servers = st.lists(
    st.fixed_dictionaries({"name": st.text("aB .", min_size=1, max_size=4), "url": st.just("http://x/mcp")})
    | st.fixed_dictionaries(
        {"name": st.just("s"), "transport": st.just("stdio"), "command": st.just("run")},
        optional={"args": st.lists(st.text(max_size=3), max_size=2)},
    ),
    max_size=2,
)
environment = table(
    workdir=st.sampled_from(["", "/", "/app", "/app/", "//x", "rel", "/a b"]),
    docker_image=st.sampled_from(["", "debian", "x/y:1"]), env=variables, cpus=st.sampled_from([1, 2.5, 0]),
    memory_mb=st.sampled_from([0, 1, 100, 2048, 4096, 10**7]), storage_mb=st.sampled_from([0, 1, 256, 512, 10**6]),
    memory=st.sampled_from(["2G", "4096M", "0.5g"]), storage=st.sampled_from(["1G", "512M"]),
    build_timeout_sec=numbers, gpus=st.sampled_from([0, 1]), mcp_servers=servers, os=st.sampled_from(["linux"]),
    skills_dir=st.just("/s"), network_mode=st.sampled_from(["public", "no-network"]),
)  # fmt: skip
environment = environment.map(
    lambda e: {
        key: value for key, value in e.items()
        if key not in configs.OLD or e.get(configs.OLD[key]) in (None, configs.megabytes(value))
    }
)  # fmt: skip
agent = table(timeout_sec=numbers, user=st.sampled_from(["root", 0, "me"]))
verifier = table(timeout_sec=numbers, env=variables, user=st.sampled_from(["me", 5]),
                 environment_mode=st.sampled_from(["shared", "separate"]))  # fmt: skip
step = table(agent=agent, verifier=verifier, min_reward=st.sampled_from([0.5, {"a": 1.0}]))
documents = st.builds(
    lambda top, steps: {**top, **({"steps": [{**s, "name": f"s{n}"} for n, s in enumerate(steps)]} if steps else {})},
    table(
        schema_version=st.just("1.4"), metadata=st.dictionaries(keys, values, max_size=3), environment=environment,
        agent=agent, verifier=verifier, solution=table(env=variables), source=st.just("x"),
        task=st.fixed_dictionaries({"name": st.just("a/b")}, optional={"keywords": st.lists(texts, max_size=2)}),
        artifacts=st.lists(st.sampled_from(["/a", "b"]), max_size=2),
    ),
    st.lists(step, max_size=2),
)  # fmt: skip


@given(values)
def test_values_survive_json(value: Any) -> None:
    assert same(from_json(to_json(value)), value)


@settings(max_examples=100, deadline=None)
@given(documents, st.sampled_from(["", "/app", "/srv"]), variables)
def test_parts_and_records_hold_all_of_it(config: dict[str, Any], workdir: str, env: dict[str, str]) -> None:
    config = configs.parse(tomli_w.dumps(config).encode())
    given_ = split.Given(workdir, env)
    records = split.records_of(config, given_, argv=("x",), dockerfile="")
    parts = split.split(config, records, given_)
    assert same(split.merged(parts, records, given_), config)


@settings(max_examples=30, deadline=None)
@given(documents)
def test_tasks_come_out_as_they_went_in(config: dict[str, Any]) -> None:
    tree = {
        "task.toml": Item(tomli_w.dumps(config).encode()), "instruction.md": Item(b"Do it.\n"),
        "environment/Dockerfile": Item(b"FROM debian\nWORKDIR /app\nENV A=1\n"), "tests/test.sh": Item(b"x\n"),
        **{f"steps/{s['name']}/instruction.md": Item(b"Do.\n") for s in config.get("steps", ())},
    }  # fmt: skip
    made = make(dict(sorted(tree.items())), Origin("x"))
    # without the text that it came with, the settings are written anew
    written = restore({p: d for p, d in made.files.items() if p != "demonstrations/harbor/task.toml"})
    assert same(configs.parse(written["task.toml"].data), configs.parse(tree["task.toml"].data))
