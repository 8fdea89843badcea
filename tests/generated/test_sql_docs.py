"""`rover help sql` lists the views as they are, and every query on the page runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from refusals import rover
from store_samples import add, edit, new_store

from rover.cli.help_topics import page
from rover_store.index import sql
from rover_store.index.views import VIEWS, reference


def test_the_page_lists_the_views_as_they_are(tmp_path: Path) -> None:
    assert page("sql").endswith("## The views\n" + reference().rstrip() + "\n")
    store = new_store(tmp_path)
    add(store, "one")
    for name, view in VIEWS.items():
        assert sql.ask(store, f"SELECT * FROM {name}").columns == tuple(view.columns), name
        assert view.row.endswith(".")
        assert all(view.columns.values())


def _commands() -> list[str]:
    blocks = re.findall(r"(?:^    .*\n)+", page("sql").partition("## The views")[0], re.MULTILINE)
    return [c for block in blocks for c in re.split(r"^    (?=rover )", block, flags=re.MULTILINE) if c]


def test_every_query_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    store = new_store(tmp_path)
    add(store, "my-task", resources={"files/shared": b"1"})
    edit(store, "my-task", {"task/instruction.md": b"Other."})
    assert len(_commands()) > 12
    for line in _commands():
        said = rover(*shlex.split(line)[1:])
        assert (said.code, said.err) == (0, ""), line
        assert said.out or "verdicts" in line, line


def test_the_views_are_unchanged() -> None:
    """Names and columns are a promise: this list may only grow."""
    promised = {
        "packages": "name title family workspace license builder seed admitted context task harness verifier tree",
        "components": "name package component version",
        "resources": "name kind title license version",
        "dependencies": "package component target recorded present stale",
        "stale": "package component target recorded present",
        "commits": "commit_id seq author time date subject message parents tree",
        "commit_parents": "commit_id position parent_id",
        "commit_changes": "commit_id seq date kind name package status old new",
        "versions": "name number version commit_id date author subject",
        "trailers": "commit_id seq key value",
        "branches": "name commit_id current",
        "tags": "name commit_id",
        "cases": "name commit_id",
        "operations": "number operation_id time date command",
        "moves": "number ref old new",
        "rollouts": "rollout_id package family policy seed context task harness runtime ended error turns prompt_tokens"
        " completion_tokens pruned present",
        "verdicts": "rollout_id package family policy seed verifier outcome score gate reason present",
        "scores": "rollout_id verifier package policy criterion requirement score weight critical status reason",
    }
    for name, columns in promised.items():
        assert [c for c in VIEWS[name].columns if c in columns.split()] == columns.split(), name
