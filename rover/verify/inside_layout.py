"""Inside a box: what plain files cannot say of a state is laid out beside them. Standard library only.

The entry is `rover.verify.inside_layout:prepare`. What a state names is hostile, and the box holds nothing else: a name
that no file system takes is told and left out, it never stops the rest.
"""

from __future__ import annotations

import os
from typing import Any

#: names that are told one by one
MOST_TOLD = 3


def prepare(payload: dict[str, Any]) -> dict[str, Any]:
    """Make `folders`, make `executables` runnable, make each of `links`, [path, target]; all paths are relative.

    Gives how many could not be made, and the first of them with the reason.
    """
    failed: list[str] = []
    for folder in payload["folders"]:
        os.makedirs(folder, exist_ok=True)
    for path in payload["executables"]:
        try:
            os.chmod(path, 0o755)
        except OSError as error:
            failed.append(_told(path, error))
    made = {""}
    for path, target in payload["links"]:
        try:
            folder = path.rpartition("/")[0]
            if folder not in made:
                os.makedirs(folder, exist_ok=True)
                made.add(folder)
            os.symlink(target, path)
        except (OSError, ValueError) as error:
            failed.append(_told(path, error))
    return {"failed": len(failed), "told": failed[:MOST_TOLD]}


def _told(path: str, error: Exception) -> str:
    said = (error.strerror or "") if isinstance(error, OSError) else str(error)
    return f"{path[:100]}: {said}"
