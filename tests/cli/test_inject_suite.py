"""`rover inject --suite`: refusals before anything runs, and the page that explains it."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refused, rover

GOOD = "name = 'x'\n[workspaces]\ndevelopment = ['files']\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    (tmp_path / "good.toml").write_text(GOOD)
    (tmp_path / "wrong.toml").write_text("name = 'x'\npackages = 'many'\n[workspaces]\n")
    (tmp_path / "nowhere.toml").write_text(GOOD.replace("'files'", "'gone'"))
    (tmp_path / "odd.toml").write_text(GOOD.replace("\n", "\nkinds = ['no_such']\n", 1))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--suite", "none"), "spec not found: none"),
        (("--suite", "wrong.toml"), "wrong.toml: packages: "),
        (("--suite", "nowhere.toml"), "workspace not found: gone"),
        (("--suite", "odd.toml"), "no kind is called 'no_such'"),
        (("--suite", "good.toml", "--split", "mine"), "--split mine: development or held-out"),
        (("--suite", "good.toml", "--split", "held-out"), "names no workspace for the held-out split"),
        (("--suite", "good.toml", "--out", "full"), "full is not empty: it holds mine"),
        (("--suite", "good.toml", "--out", "file"), "file is a file"),
        (("--suite", "good.toml", "a-package"), "a suite names no package and no kind"),
    ],
)
def test_refused_before_anything_is_made(words: tuple[str, ...], part: str, home: Path) -> None:
    before = sorted(p.relative_to(home) for p in home.rglob("*"))
    refused(rover("inject", *words), 2, part)
    assert sorted(p.relative_to(home) for p in home.rglob("*")) == before


def test_a_folder_that_gives_no_package_says_so(home: Path) -> None:
    (home / "files" / "notes.md").write_text("# Nothing to work with\n")
    said = rover("inject", "--suite", "good.toml", "--count", "2", "--out", "made")
    refused(said, 2, "no usable table in the folder")
    assert not (home / "made" / "manifest.json").exists()


def test_the_page_names_every_field_of_a_spec() -> None:
    from rover.bench.suites.spec import Spec

    page = rover("help", "suites").out
    for name in set(Spec.model_fields) - {"schema_version"}:
        assert name in page
