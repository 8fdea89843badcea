"""The page of a run and of a comparison: whole, self-contained, and safe whatever a run holds."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from run_folders import HOSTILE, run_folder

from rover_store.errors import NotFound, PackageError
from rover_train import report
from rover_train.compare import compare, load
from rover_train.report import compared
from rover_train.report.curves import BLUE, Line, Panel, scale, smoothed, svg, thinned
from rover_train.report.markup import Html, tag, text
from rover_train.report.record import read, spread


class Seen(HTMLParser):
    """Elements, attributes and text of a page; fails where an element is not closed by its own end."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(name)
        self.attributes += [(name, key, value) for key, value in attributes]
        if name not in ("meta", "br"):
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.said).split())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_folder(tmp_path_factory.mktemp("runs") / "vtca")


@pytest.fixture(scope="module")
def seen(run: Path) -> Seen:
    return Seen(report.write(run).read_text())


def test_the_page_is_whole(seen: Seen) -> None:
    assert seen.open == []
    for said in (
        "vtca: vtca-grpo on 0123456789ab", "Curves", "Validation", "Evaluations", "Outcomes and errors",
        "Where the time of a step goes", "Rollouts, turn by turn", "Config", "dropped groups", "infra_error",
        "validation success of the best checkpoint, step 40", "used turns", "progress p", "credit δ", "2,560",
        "north , south",
    ):  # fmt: skip
        assert said in seen.words, said
    assert seen.tags.count("svg") >= 12


def test_it_loads_nothing_and_runs_nothing(seen: Seen) -> None:
    assert not {"script", "img", "link", "iframe", "object", "form", "base"} & set(seen.tags)
    for _, key, value in seen.attributes:
        assert not key.startswith("on")
        if key in ("href", "src"):
            assert value is not None
            assert value.startswith("#")
    policy = next(v for name, key, v in seen.attributes if name == "meta" and key == "content")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_hostile_text_is_shown_as_text(seen: Seen, run: Path) -> None:
    page = (run / report.NAME).read_text()
    assert "<script" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", page)
    assert "<script>alert(1)</script>" in seen.words
    assert "\\u202egpj.exe" in seen.words


def test_a_turn_stands_beside_its_text(seen: Seen) -> None:
    """Turn 2 used turn 0: a link leads there; each of its two rollouts a sample has a bar for every turn."""
    targets = {v for _, key, v in seen.attributes if key == "id"}
    links = {v for _, key, v in seen.attributes if key == "href"}
    assert "#r0-t0" in links
    assert {link[1:] for link in links if link} <= targets
    assert "withheld: H = 0" in seen.words
    assert "G = 0 · H = 0" in seen.words


def test_equal_folders_give_equal_pages(run: Path, tmp_path: Path) -> None:
    again = run_folder(tmp_path / "vtca")
    assert report.write(again, tmp_path / "other/page.html").read_bytes() == report.write(run).read_bytes()


def test_a_run_that_has_just_begun(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    shutil.copy(run / "config.toml", folder)
    words = Seen(report.write(folder).read_text()).words
    assert "No step is logged yet." in words
    assert "log.jsonl cannot be read" in words
    assert "Validation" not in words


def test_broken_files_are_named(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(run, folder)
    (folder / "run.json").write_text("[]")
    (folder / "split.json").write_text("{")
    with (folder / "log.jsonl").open("a") as log:
        log.write('nonsense\n{"kind": 1, "step": 2}\n' + "[" * 100_000 + '\n{"kind": "train", "st')
    (folder / "samples/step-000001.json").write_text('[{"step": "x"}]')
    (folder / "evaluations/held-out.json").write_text("{}")
    words = Seen(report.write(folder).read_text()).words
    for said in (
        "run.json is no JSON object", "split.json cannot be read", "3 lines of log.jsonl cannot be read",
        "samples/step-000001.json cannot be read", "evaluations/held-out.json cannot be read",
    ):  # fmt: skip
        assert said in words
    assert "Rollouts, turn by turn" in words


def test_odd_values_in_a_log_do_no_harm(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    shutil.copy(run / "config.toml", folder)
    rows = [
        {"kind": "train", "step": 1, "loss": None, "success": "high", "outcomes": {HOSTILE: 3, "passed": HOSTILE}},
        {"kind": "train", "step": 2, "loss": 1e300, "time": [1], "outcomes": 7},
        {"kind": "eval", "step": 2, "success": True, "loss": -1e-300},
        {"kind": "eval", "step": 3, "score": 0.225},
        {"kind": "eval", "step": 4, "score": 0.22500000000000003, "loss": 10**400},
        {"kind": "train", "step": 10**400, "loss": 1.0},
        {"kind": "train", "step": 4, "loss": 1e308, "outcomes": {"passed": 0}},
        {"kind": "warning", "step": 2, "text": {"a": HOSTILE}},
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    seen = Seen(report.write(folder).read_text())
    assert seen.open == []
    assert "script" not in seen.tags


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="run not found"):
        report.write(tmp_path)
    (tmp_path / "config.toml").write_text("= nonsense")
    with pytest.raises(PackageError, match=r"config\.toml: cannot be read"):
        report.write(tmp_path)


def test_a_page_shows_some_of_many_samples(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    shutil.copytree(run, folder)
    listed = json.loads((folder / "samples/step-000001.json").read_text())
    for step in range(100):
        (folder / f"samples/step-{step:06d}.json").write_text(json.dumps([{**one, "step": step} for one in listed]))
    found = read(folder)
    assert len(found.samples) == 24
    assert {found.samples[0].step, found.samples[-1].step} == {0, 99}
    assert found.samples_left == 176


def test_spread() -> None:
    assert spread(list(range(10)), 4) == [0, 3, 6, 9]
    assert spread([1, 2], 4) == [1, 2]


def test_comparison(tmp_path: Path) -> None:
    sides = load([run_folder(tmp_path / "a", method="grpo", gain=0.0), run_folder(tmp_path / "b", seed=1)])
    seen = Seen(compared.html(compare(sides)))
    assert seen.open == []
    for said in ("b against a", "all packages", "family edit", "difficulty 3", "48 pairs"):
        assert said in seen.words


# --- pieces ------------------------------------------------------------------------------------------------
def test_everything_is_escaped_but_what_was_made_here() -> None:
    assert tag("p", "<b>", tag("i", "&"), title='a"b') == '<p title="a&quot;b">&lt;b&gt;<i>&amp;</i></p>'
    assert text(Html("<b>")) == "<b>"
    assert text(None) == ""
    assert text("\x00\u202e\ud800") == "\\u0000\\u202e\\ud800"


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 1, [0, 0.5, 1]), (0.1, 0.9, [0, 0.5, 1]), (0, 10, [0, 5, 10]), (0, 0, [-0.5, 0, 0.5]), (-3, 8, [-5, 0, 5, 10]),
     (0, 3e-4, [0, 1e-4, 2e-4, 3e-4]), (0.225, 0.22500000000000003, [0.1, 0.2, 0.3, 0.4]), (0, 5e-324, [-0.5, 0, 0.5])],
)  # fmt: skip
def test_scales_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert scale(low, high)[2] == pytest.approx(ticks)


def test_a_scale_of_one_value_holds_it() -> None:
    low, high, _ = scale(-7.3, -7.3)
    assert low < -7.3 < high


def test_lines_are_thinned_and_smoothed() -> None:
    """1,500 points become means of three. Of 48 points the window reaches two to each side: in the middle of a straight
    line the mean is the point, at its beginning that of 0, 1, 2."""
    line = [(n, float(n)) for n in range(1500)]
    thin = thinned(line)
    assert len(thin) == 500
    assert thin[0] == (1, 1.0)
    assert smoothed(line[:48])[20] == (20, 20.0)
    assert smoothed(line[:48])[0] == (0, 1.0)


def test_equal_panels_give_equal_pictures() -> None:
    panel = Panel("Loss", (Line("loss", ((1, 0.5), (2, 0.25)), BLUE),), floor=0.0)
    assert svg(panel) == svg(panel)
    assert "Loss" in svg(panel)
    assert svg(Panel("None", ())).startswith("<svg")
