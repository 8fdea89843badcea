"""A package's verifier as a folder of its own, which needs Python alone.

    folder(env) -> Standalone: path -> bytes; `python3 grade.py END` there grades as rover does

It scores by the same code: `lib/` holds the modules that run checks in a sandbox of rover's, as they are.
"""

from rover.port.standalone.make import Standalone, folder

__all__ = ["Standalone", "folder"]
