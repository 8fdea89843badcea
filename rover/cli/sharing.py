"""How clone, pull, push and fetch say what travelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rover.cli.output import counted

if TYPE_CHECKING:
    from rover_store.transfer.transfer import Transferred, Update


def moved(updates: tuple[Update, ...]) -> list[str]:
    """One line a branch or tag that moved."""
    out = []
    for u in updates:
        span = f"{u.old[:12]} -> {u.new[:12]}" if u.old and u.new else (u.new or "")[:12]
        what = "  (new)" if u.old is None else "  (gone)" if u.new is None else ""
        out.append(f"  {u.ref}  {span or (u.old or '')[:12]}{what}")
    return out


def notes(done: Transferred) -> list[str]:
    """What a person should know besides."""
    out = [f"the tag {tag} differs on both sides; neither was touched" for tag in done.kept]
    if done.evidence:
        out.append(f"evidence: {counted(done.evidence, 'object')}")
    if done.differ:
        out.append(f"evidence: {counted(len(done.differ), 'rollout or verdict')} differ there; ours stand")
    if done.sealed:
        out.append(f"sealed audits: {done.sealed} new")
    return out
