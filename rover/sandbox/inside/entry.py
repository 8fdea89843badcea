"""One call inside a box: find `module:function`, give it the payload, and put its value or error into JSON.

Runs in the child that serves this call alone. Where the child comes from (a zygote, a plain process) and what
confines it is left to the caller.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any


def perform(job: bytes) -> bytes:
    """Run one job, `{"entry": ..., "payload": ...}`, and return `{"value": ...}` or `{"error", "traceback"}`."""
    try:
        request = json.loads(job)
        module, _, name = request["entry"].partition(":")
        function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        answer = {"value": function(request["payload"])}
        return json.dumps(answer, ensure_ascii=True).encode()
    except BaseException as error:
        return json.dumps({"error": one_line(error), "traceback": traceback.format_exc()[-8000:]}).encode()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                continue  # the called function closed it


def one_line(error: BaseException) -> str:
    """`KeyError: 'a'`: type and text of an exception, on one line of at most 500 characters."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__


def main() -> None:
    """`python -m rover.sandbox.inside.entry RESULT_FD`: job on stdin, result on the descriptor."""
    out = int(sys.argv[1])
    job = sys.stdin.buffer.read()
    answer = perform(job)
    with os.fdopen(out, "wb") as stream:
        stream.write(answer)
    os._exit(0)


if __name__ == "__main__":
    main()
