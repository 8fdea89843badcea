"""The small world: equal seeds give equal files, drills say what the harness would say, pretraining is exact."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from rover.construct.families.chores import demonstrator, hasty
from rover.harness.inside import tool
from rover_store.errors import UsageError
from rover_train.models import load, weights_id
from rover_train.render import Renderer, dialect
from rover_train.world import drills, model, tokenizer, workspaces
from rover_train.world.desk import Desk, play
from rover_train.world.pretrain import pretrain


def test_equal_seeds_give_equal_workspaces(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in "abc")
    for folder, seed in ((first, 1), (second, 1), (other, 2)):
        assert [p.name for p in workspaces.write(folder, 3, seed)] == ["w0000", "w0001", "w0002"]
    texts = [{p.relative_to(f): p.read_bytes() for p in sorted(f.rglob("*.csv"))} for f in (first, second, other)]
    assert texts[0] == texts[1] != texts[2]
    assert len(texts[0]) == 12
    with pytest.raises(UsageError, match="is there already"):
        workspaces.write(first, 1, 5)


def test_every_workspace_can_carry_reports() -> None:
    usual = 0
    for number in range(200):
        tables = workspaces.tables(3, number)
        counts = Counter(row[1] for row in tables["main.csv"][1:]).values()
        assert any(3 <= n <= 5 for n in counts)
        assert any(2 <= n <= 4 for n in counts)
        assert len({row[0] for row in tables["main.csv"]}) == len(tables["main.csv"])
        usual += sum(row[1] == str(workspaces.USUAL) for row in tables["rates.csv"])
    assert 0.55 < usual / 1200 < 0.65
    assert str(workspaces.USUAL) == hasty.USUAL


def test_the_desk_answers_as_the_harness_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls = 0
    for number in range(40):
        view, tables = drills.draw(random.Random(number))
        for path, table in tables.items():
            Path(path).write_text(workspaces.csv_text(table))
        for path in ("out.csv", "list.csv"):
            Path(path).unlink(missing_ok=True)
        desk = Desk(tables)
        for plan in (hasty.plan, demonstrator.plan):
            for _, answers in play(plan, view, desk, number):
                for answer in answers:
                    real = tool({"tool": answer.tool, "arguments": answer.arguments})
                    assert (answer.output, answer.status, answer.truncated) == (
                        real["output"], real["status"], real["truncated"],
                    )  # fmt: skip
                    calls += 1
        for path, table in desk.tables.items():
            assert Path(path).read_text() == workspaces.csv_text(table)
    assert calls > 250


@pytest.fixture(scope="module")
def words() -> object:
    return tokenizer.train(0)


def test_the_tokenizer_is_small_and_copies_field_by_field(words: object) -> None:
    again = tokenizer.train(0)
    assert again.get_vocab() == words.get_vocab()  # type: ignore[attr-defined]
    assert 300 < len(words) <= tokenizer.SIZE  # type: ignore[arg-type]
    for text in (" 137", " 5", " north", " bolt", " append", " list.csv", " `qty`", ' "south"'):
        assert len(words.encode(text)) == 1, text  # type: ignore[attr-defined]
    said = " edit ledger.csv where id 243 set note \u00e9 7x\n"
    assert words.decode(words.encode(said)) == said  # type: ignore[attr-defined]


def test_drills_are_equal_for_equal_seeds_and_show_habits(words: object) -> None:
    renderer = Renderer(words, dialect("plain"), window=1024, observation_tokens=1024)
    first, second, other = (drills.drills(renderer, seed) for seed in (0, 0, 1))
    rows = [next(first) for _ in range(60)]
    assert rows == [next(second) for _ in range(60)] != [next(other) for _ in range(60)]
    assert all(len(row.ids) < 400 for row in rows)
    said = [words.decode(row.ids) for row in rows]  # type: ignore[attr-defined]
    assert all(text.endswith(" done<|end|>") for text in said)
    glanced = sum(" take 3" in text for text in said)
    looked = sum(" read rates.csv" in text for text in said)
    assert glanced > 20
    assert looked > 5


def test_a_fresh_model_leans_to_what_came_next_before() -> None:
    made = model.make(500, 0)
    assert made.num_parameters() > 1_500_000
    once = torch.randint(10, 500, (16, 24), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = made(input_ids=torch.cat((once, once), dim=1)).logits[:, 24:-1]
    right = logits.gather(2, once[:, 1:, None])
    assert float((logits > right).sum(-1).float().mean()) < 180  # by chance 250


def test_pretraining_twice_gives_the_same_model(tmp_path: Path) -> None:
    losses: list[float] = []
    for name in ("a", "b"):
        facts = pretrain(tmp_path / name, 0, steps=2, told=lambda step, total, loss: losses.append(loss))
    assert losses[:2] == losses[2:]
    assert facts["tokens"] > 0
    first, second = (load(f"small:{tmp_path / name}") for name in "ab")
    assert weights_id(first.model) == weights_id(second.model)
    assert first.dialect == "plain"
    assert json.loads((tmp_path / "a/world.json").read_text())["vocabulary"] == len(first.tokenizer)
    with pytest.raises(UsageError, match="not empty"):
        pretrain(tmp_path / "a", 0, steps=1)
