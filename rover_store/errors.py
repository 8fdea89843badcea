"""The errors of the whole project: each carries its operands, none prints.

    RoverError
      StoreError      the store: corrupt, missing, newer format, lost race     exit 3 (usage kinds: 2)
        NotFound      a revision, package or component that is not there       exit 2
        Ambiguous     a short id that names several objects                    exit 2
        LostRace      a ref moved since it was read                            exit 3
      PackageError    bad input: a file, a field and the reason                exit 2
      UsageError      a request that makes no sense (empty glob, bad option)   exit 2
      SandboxError    the sandbox failed, or cannot run on this machine        exit 3
      ProviderError   a model server failed                                    exit 3
      HarnessError    the tool loop itself failed                              exit 3
      VerifierError   a checker crashed in spite of readable input             recorded, not an exit code

StoreError, SandboxError, ProviderError, HarnessError and VerifierError are never an agent's failure:
they are recorded as an outcome of their own and leave every denominator.
"""

from __future__ import annotations


class RoverError(Exception):
    """Base of all errors that rover raises on purpose. `exit_code` and `hint` serve the command line."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StoreError(RoverError):
    """The store cannot do what was asked: corrupt, of a newer format, or the disk refused."""


class NotFound(StoreError):
    """A revision, package, component or resource that does not exist."""

    exit_code = 2

    def __init__(self, what: str, name: str, *, hint: str = "") -> None:
        shown = name if len(name) <= 300 else f"{name[:200]}...{name[-60:]}"
        super().__init__(f"{what} not found: {shown}", hint=hint)
        self.what = what
        self.name = name


class Ambiguous(StoreError):
    """A short id that several objects share."""

    exit_code = 2

    def __init__(self, name: str, candidates: tuple[str, ...], described: tuple[str, ...] = ()) -> None:
        shown = (described or candidates)[:5]
        more = f" and {len(candidates) - 5} more" if len(candidates) > 5 else ""
        super().__init__(f"revision is ambiguous: {name} could be {', '.join(shown)}{more}")
        self.name = name
        self.candidates = candidates


class UsageError(RoverError):
    """A request that makes no sense."""

    exit_code = 2


class PackageError(RoverError):
    """Bad input. The message is one line: file, field, reason."""

    exit_code = 2

    def __init__(self, file: str, field: str, reason: str, *, hint: str = "") -> None:
        where = f"{file}: {field}: {reason}" if field else f"{file}: {reason}"
        super().__init__(where.encode("unicode_escape").decode("ascii") if "\n" in where else where, hint=hint)
        self.file = file
        self.field = field
        self.reason = reason


class SandboxError(RoverError):
    """The sandbox failed or cannot run here."""


class ProviderError(RoverError):
    """A model server refused, stalled or answered nonsense."""


class HarnessError(RoverError):
    """The tool loop failed for a reason that is not the policy's."""


class VerifierError(RoverError):
    """A checker crashed in spite of readable input."""


class LostRace(StoreError):
    """A ref moved since it was read; the caller starts again from where it is now."""

    def __init__(self, ref: str, expected: str | None, found: str | None) -> None:
        super().__init__(f"{ref} moved meanwhile: expected {expected or 'nothing'}, found {found or 'nothing'}")
        self.ref = ref
        self.expected = expected
        self.found = found
