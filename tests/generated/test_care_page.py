"""`rover help care` names every kind of problem that fsck knows and git does not, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: one word on the page; a message of git's
_PLAIN, _GITS = {"cycle", "dangling", "unreadable"}, {"nullSha1"}


def test_the_kinds_are_those_of_the_code() -> None:
    page = (ROOT / "rover/docs/care.md").read_text()
    page = page[page.index("- objects:") : page.index("Exit 1")]
    said = set(re.findall(r"`([a-z]\w+)`", page))
    code = "\n".join(path.read_text() for path in sorted((ROOT / "rover_store/care").glob("fsck*.py")))
    used = set(re.findall(r'kind="([a-zA-Z0-9]+)"', code))
    used |= set(re.findall(r'"(?:error|warning|info)", "([a-zA-Z0-9]+)"', code))
    used |= set(re.findall(r'"(missing(?:Blob|Tree|Commit|Tag)|stale\w+|bad\w+Name)"', code)) - {"badTagName"}
    assert said == used - _GITS
    assert said >= _PLAIN
