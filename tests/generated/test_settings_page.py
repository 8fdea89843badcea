"""`rover help settings` says what the config has: the page is made from the record."""

from pathlib import Path

from rover_train.config_page import main, page

PAGE = Path(__file__).parents[2] / "rover/docs/settings.md"


def test_no_drift() -> None:
    assert PAGE.read_text() == page(), "run: python -m rover_train.config_page rover/docs/settings.md"


def test_drift_is_seen(tmp_path: Path) -> None:
    made = tmp_path / "settings.md"
    assert main([str(made)]) == 0
    assert main([str(made), "--check"]) == 0
    made.write_text(page() + "- **lr**\n")
    assert main([str(made), "--check"]) == 1
