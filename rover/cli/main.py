"""Entry point of `rover`: lazy commands, and the one place where errors become message, hint and exit code.

Exit codes: 0 done, 1 findings (or a repair that promoted nothing), 2 usage or bad input, 3 infrastructure,
130 interrupted with finished work kept.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from rover.cli.commands import COMMANDS
from rover.cli.entry import stop
from rover.cli.output import note
from rover.cli.plain_values import spare
from rover_store.errors import RoverError

HELP = """Git for agent-training environments.

Rover keeps task packages (context, task, verifier, run by a harness) as
versioned components in a store. It builds them from real files, runs agents in
them, tells environment defects from agent mistakes, and repairs packages by the
smallest set of edits that passes every gate.

Start with `rover demo`. Read on with `rover help package`.
"""


#: Newer Typer carries its own copy of click; its exceptions are found through a public subclass.
_UsageProblem: type[Any] = typer.BadParameter.__mro__[2]


class LazyGroup(TyperGroup):
    """A group that imports a command's module when it is called, not before."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load(cmd_name) if cmd_name in COMMANDS else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Render from the registry alone: importing the modules would cost what laziness saves."""
        out = [HELP, "Usage: rover [--store DIR] COMMAND [ARGS]...", ""]
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            groups.setdefault(entry.group, []).append((name, entry.summary))
        for group, rows in groups.items():
            out.append(f"{group}:")
            out += [f"  {name:<10}{summary}" for name, summary in rows]
            out.append("")
        out += [
            "Options:",
            "  --store DIR            The project folder of the store (else ROVER_STORE, else",
            "                         the nearest folder above that holds .rover).",
            "  --version              Print the version.",
            "  --install-completion   Install completion for this shell.",
            "  --show-completion      Print the completion script.",
            "  --help                 Print this page.",
        ]
        formatter.write("\n".join(out) + "\n")


def load(name: str) -> Any:
    """The click command of one name, with its module imported."""
    module = importlib.import_module(f"rover.cli.{COMMANDS[name].module}")
    if hasattr(module, "app"):
        group = typer.main.get_command(module.app)
        group.name = name
        return group
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, help=module.command.__doc__)(module.command)
    command = typer.main.get_command(app)
    command.name = name
    return spare(command)


app = typer.Typer(cls=LazyGroup, rich_markup_mode=None, pretty_exceptions_enable=False,)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"rover {version('workrover')}")
        raise typer.Exit


@app.callback(help=HELP)
def root(
    store: str = typer.Option("", "--store", metavar="DIR", help="The project folder of the store."),
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    if store:
        os.environ["ROVER_STORE"] = store


INTERRUPTED = 130
#: what a path of the user's can be wrong about; any other trouble of the system is infrastructure
_THEIR_PATH = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP})

_CLOSED = frozenset({errno.EACCES, errno.EPERM})


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit. SIGTERM ends it like Ctrl-C: finished work is kept."""
    _interrupts(_interrupted)
    try:
        _streams()
        code = run(argv)
    except KeyboardInterrupt:  # a second one, while the first was being answered
        code = INTERRUPTED
    _interrupts(stop)
    sys.exit(code)


#: signals that asked this process to stop
_struck: list[int] = []


def _interrupted(number: int, frame: object) -> None:
    """Stop the work that is under way. What it raises may reach `run` as another error: it is remembered."""
    _struck.append(number)
    raise KeyboardInterrupt


def _interrupts(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _streams() -> None:
    """Every stream can be written: a closed one swallows, and a letter it has no code for becomes an escape."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never raises for what a user can cause."""
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    named = os.environ.get("ROVER_STORE")  # --store sets it, for this call alone
    try:
        code = _command(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _nobody_reads()
    except SystemExit as error:  # what Typer makes of a broken pipe
        if isinstance(error.__context__, BrokenPipeError):
            return _nobody_reads()
        raise
    except OSError as error:  # a full disk below a redirected stdout
        return _fail(f"stdout: {error.strerror or error}", 3)
    finally:
        os.environ.pop("ROVER_STORE", None)
        if named is not None:
            os.environ["ROVER_STORE"] = named


def _command(words: list[str]) -> int:
    command: Any = spare(typer.main.get_command(app))
    try:
        result = command.main(args=words, prog_name="rover", standalone_mode=False)
        if result == INTERRUPTED:  # what Typer makes of a KeyboardInterrupt
            return _fail("interrupted; finished work is kept", INTERRUPTED)
        return result if isinstance(result, int) else 0
    except typer.Exit as error:
        return int(error.exit_code)
    except typer.Abort:
        return _fail("interrupted; finished work is kept", INTERRUPTED)
    except _UsageProblem as error:
        return _fail(error.format_message(), 2, "see `rover --help` or `rover COMMAND --help`")
    except RoverError as error:
        return _fail(error.message, error.exit_code, error.hint)
    except KeyboardInterrupt:
        return _fail("interrupted; finished work is kept", INTERRUPTED)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(f"{error.filename or _written(error)}: {error.strerror or error}", _code(error))
    except Exception as error:  # a fault of rover's own: still one line and an exit code
        word = next((w for w in words if not _is_text(w)), None)
        if isinstance(error, UnicodeEncodeError) and word is not None:
            return _fail(f"{word}: not UTF-8", 2)
        if os.environ.get("ROVER_DEBUG"):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return _fail(f"internal error: {what}", 3, "this is a bug of rover; ROVER_DEBUG=1 shows where")


def _written(error: OSError) -> str:
    """What a disk could not take, where the error does not say: both are written by descriptors."""
    from rover_store import config

    with suppress(RoverError, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            return f"stdout, or the store in {config.find(None)}"
    return "system"


def _code(error: OSError) -> int:
    """What cannot be read is bad input, but for what lies in a store."""
    of_store = f"{os.sep}.rover{os.sep}" in os.fsdecode(error.filename or "")
    theirs = error.errno in _THEIR_PATH or (error.errno in _CLOSED and error.filename and not of_store)
    return 2 if theirs else 3


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _nobody_reads() -> int:
    """The reader of a pipe is gone, as with `| head`: nothing more to say, and no fault of this command."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return 0


def _fail(message: str, code: int, hint: str = "") -> int:
    if _struck and code == 3:  # a library turned the interrupt into an error of its own
        message, code, hint = "interrupted; finished work is kept", INTERRUPTED, ""
    with suppress(OSError):
        note(f"rover: {message}")
        if hint:
            note(f"  hint: {hint}")
    return code
