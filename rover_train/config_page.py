"""The page `rover help settings`, made from the config record.

Write it with `python -m rover_train.config_page rover/docs/settings.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rover_train.config import Config, fields

HEAD = """# Settings of a training run

`rover train` takes them from a TOML file (`--config FILE`), then from `--set section.key=value`, then from options;
later ones win. `rover train --print-config` prints all of them as such a file. In brackets: what a key takes, and
its default. A key that does not exist is refused by name.

Two runs whose settings are equal, but for `log` and `checkpoint`, are the same run: equal weights on a CPU.
"""


def page() -> str:
    """Markdown: one section a table, one item a key."""
    lines = [HEAD]
    section = ""
    for one in fields():
        name, _, key = one.key.rpartition(".")
        if name != section:
            section = name
            lines += ["", f"## [{name}]", ""]
            about = Config.model_fields[name].description if name in Config.model_fields else ""
            lines += [about, ""] if about else []
        lines.append(f"- **{key}** ({one.kind}; {one.default}): {one.text}")
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip() + "\n"


def main(argv: Sequence[str]) -> int:
    """Write the page; with --check say whether it is up to date."""
    path = Path(argv[0])
    if "--check" in argv:
        return int(path.read_text(encoding="utf-8") != page())
    path.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
