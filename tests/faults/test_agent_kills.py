"""kill -9 to agents, relays, boxes and rover at random moments. `python tests/agent_kills.py FOLDER` does many."""

from __future__ import annotations

import os
import random
from pathlib import Path

from agent_kills import VICTIMS, Drill
from boxes import make


def test_a_killed_agent_is_tried_again_and_leaves_nothing(tmp_path: Path) -> None:
    make("bubblewrap").close()  # type: ignore[attr-defined]
    kills = int(os.environ.get("ROVER_AGENT_KILLS", len(VICTIMS)))
    tally = Drill(tmp_path / "drill", random.Random(3)).run(kills)
    assert tally.kills.total() == kills
    assert tally.retried.total() + tally.whole.total() == kills
    assert tally.retried.total() > 0
