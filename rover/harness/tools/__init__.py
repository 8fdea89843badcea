"""The tools that a harness can offer: `TOOLS`, name -> ToolSpec.

`specs` is what a policy sees and what its arguments are checked against (on the host). The other modules do
the work; they run inside the box (`rover.harness.inside:tool`), so that hostile files never meet the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rover.harness.tools.specs import TOOLS as TOOLS

__all__ = ["TOOLS"]


def __getattr__(name: str) -> Any:
    # the box imports this package for the tools' sake, and needs no records for them
    if name == "TOOLS":
        from rover.harness.tools.specs import TOOLS

        return TOOLS
    raise AttributeError(name)
