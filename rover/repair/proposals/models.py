"""The proposers of a model as a command names it: one for each component, a recording and a server behind it."""

from __future__ import annotations

from pathlib import Path

from rover.repair.proposals.asking import Asker, Recorded, Server
from rover.repair.proposals.model import FromModel, ModelBudget
from rover.repair.proposals.protocol import Proposer
from rover_store.errors import UsageError
from rover_store.ids import COMPONENTS


def models(
    name: str, server: str = "", key: str = "", recording: Path | None = None, budget: ModelBudget | None = None
) -> tuple[Proposer, ...]:
    """None where no model is named. UsageError where there is neither a server to ask nor a recording to play."""
    if not name:
        return ()
    if not server and recording is None:
        raise UsageError("--model needs a server to ask or a recording to play")
    asker: Asker | None = Server(name, server, key=key) if server else None
    if recording is not None:
        asker = Recorded(recording, asker, model=name)
    assert asker is not None
    return tuple(FromModel(component, asker, budget) for component in COMPONENTS)
