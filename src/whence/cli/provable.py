"""How much of a history is provable, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.history.questions.provable import Provable

UNCONNECTED = (
    "WARNING: no message connects these processes: nothing is known of what led from one to another. "
    "Give sends and receives, trace ids or vector clocks: docs/sources.md says how"
)


def provable_lines(found: Provable) -> list[str]:
    """Say for how many events it is provable what cannot have led to them, why not for all, and what that rests on."""
    size = f"{_counted(found.events, 'event')} of {_counted(found.processes, 'process')}"
    if not found.connected:
        return [UNCONNECTED, size]
    share = _share(found.provable, found.events)
    said = f"{size}: for {share} of them it is provable what cannot have led to them"
    reasons = []
    if after_holes := found.events - found.provable - found.silent_events:
        first = "" if found.first_missing is None else f" (first before {found.first_missing})"
        reasons.append(f"for {after_holes:,} a report is missing in their past{first}")
    if found.silent_events:
        names = ", ".join(found.silent)
        more = ", ..." if found.silent_processes > len(found.silent) else ""
        which = "a process that tells" if found.silent_processes == 1 else "processes that tell"
        are = "is" if found.silent_events == 1 else "are"
        reasons.append(f"{found.silent_events:,} {are} of {which} of no message ({names}{more})")
    lines = ["; ".join([said, *reasons])]
    if not found.numbered and found.processes:
        lines.append("  if no report was lost: not all events have numbers, and nobody can miss one that has none")
    return lines


def _share(part: int, whole: int) -> str:
    """In percent, and never rounded to all or to none."""
    if part == whole:
        return "all"
    if not part:
        return "none"
    percent = 100 * part / whole
    return f"{percent:.0f}%" if 1 <= percent < 99.5 else "less than 1%" if percent < 1 else "more than 99%"


def _counted(count: int, name: str) -> str:
    plural = f"{name}es" if name.endswith("s") else f"{name}s"
    return f"{count:,} {name if count == 1 else plural}"
