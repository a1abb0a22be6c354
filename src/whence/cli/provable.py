"""How much of a history is provable, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.cli.wording import counted

if TYPE_CHECKING:
    from whence.history.questions.provable import Provable

UNCONNECTED = (
    "WARNING: no message connects these processes: nothing is known of what led from one to another. "
    "Give sends and receives, trace ids or vector clocks: docs/sources.md says how"
)
SPANS_UNCONNECTED = (
    "WARNING: no span has its parent, or a link to a span, in another process: nothing is known of what led from one "
    "process to another. Do callers pass their trace context on, and are the spans of all services here?"
)


def provable_lines(found: Provable) -> list[str]:
    """Say for how many events it is provable what cannot have led to them, why not for all, and what that rests on."""
    size = f"{counted(found.events, 'event')} of {counted(found.processes, 'process')}"
    warning = [] if found.connected else [SPANS_UNCONNECTED if found.spans else UNCONNECTED]
    if warning and found.silent_processes == found.processes:
        return [*warning, size]
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
    lines = [*warning, "; ".join([said, *reasons])]
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
