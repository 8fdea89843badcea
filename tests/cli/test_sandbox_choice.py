"""Which sandbox a command takes: the option, then ROVER_SANDBOX, then config.toml, then the first that works."""

from __future__ import annotations

from pathlib import Path

import pytest

from rover.cli.main import run
from rover.sandbox import registry


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.delenv("ROVER_SANDBOX", raising=False)
    assert run(["init", "."]) == 0
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert run(["diagnose", "none", *words]) == 2
    return capsys.readouterr().err


def test_the_nearest_word_counts(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = store / ".rover" / "config.toml"
    config.write_text(config.read_text() + 'sandbox = "of-config"\n')
    assert "no sandbox of kind 'of-config'" in refusal(capsys)
    monkeypatch.setenv("ROVER_SANDBOX", "of-environment")
    assert "no sandbox of kind 'of-environment'" in refusal(capsys)
    assert "no sandbox of kind 'of-option'" in refusal(capsys, "--sandbox", "of-option")
    assert "known kinds: auto, bubblewrap, landlock, docker, local" in refusal(capsys)


def test_a_kind_in_config_is_text(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = store / ".rover" / "config.toml"
    config.write_text(config.read_text() + "sandbox = 3\n")
    capsys.readouterr()
    assert run(["diagnose", "none"]) == 3
    assert "config.toml: sandbox: must be a kind of sandbox, in quotes" in capsys.readouterr().err


def test_auto_takes_the_first_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_passed_over", {"bubblewrap": "it was passed over", "docker": "this one too"})
    monkeypatch.setattr(registry, "AUTO", ("bubblewrap", "local", "docker"))
    assert registry.open_runtime().kind == "local"
    monkeypatch.setattr(registry, "AUTO", ("bubblewrap", "docker"))
    with pytest.raises(registry.SandboxError, match="bubblewrap: it was passed over; docker: this one too"):
        registry.open_runtime("auto")
