"""Asking a proposer that may crash or never answer. Neither stops a repair: it just has no proposal from there."""

from __future__ import annotations

import threading

from rover.repair.proposals.protocol import Draft, PackageView, Proposer
from rover_store.errors import HarnessError, ProviderError, RoverError, SandboxError
from rover_store.records import Diagnosis

#: seconds that a proposer of another distribution may take
LONGEST = 120.0


def guarded(
    proposer: Proposer, view: PackageView, diagnosis: Diagnosis, seconds: float = LONGEST
) -> tuple[Draft | None, str]:
    """The draft, or why there is none. Faults of sandbox and harness are raised: they say nothing of a proposer."""
    if type(proposer).__module__.startswith("rover.") and proposer.style != "model":
        return _asked(proposer, view, diagnosis)
    answer: list[tuple[Draft | None, str]] = []
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            answer.append(_asked(proposer, view, diagnosis))
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=ask, daemon=True, name=f"proposer {proposer.name}")
    thread.start()
    thread.join(getattr(proposer, "seconds", seconds))
    if errors:
        raise errors[0]
    return answer[0] if answer else (None, f"no answer within {getattr(proposer, 'seconds', seconds):g} s")


def _asked(proposer: Proposer, view: PackageView, diagnosis: Diagnosis) -> tuple[Draft | None, str]:
    try:
        made = proposer.propose(view, diagnosis)
    except (SandboxError, HarnessError):
        raise
    except ProviderError as error:
        return None, str(error)
    except RoverError as error:
        return None, " ".join(str(error).split())[:300]
    except Exception as error:
        if type(proposer).__module__.startswith("rover."):
            raise  # a fault of ours is not to be hidden
        return None, f"it crashes: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if made is not None and not isinstance(made, Draft):
        return None, f"it gives a {type(made).__name__}, not a draft"
    return made, ""
