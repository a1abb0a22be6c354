"""A space-time diagram as SVG: a lane for each thing that a process does, causes above effects, one row an event.

Takes dots, in an order in which every cause stands before its effects; gives text. A row looks like this, with the
lane under the dot and, on the right, the wall time relative to the focus and what happened::

    ○──●   -12 ms   payments-1 · charge refused

Wall time decides nothing here but the colour: an arrow whose message was received before it was sent, by the clocks
of the two processes, is drawn as running backwards, with the amount.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from whence.web.spans import signed_span
from whence.web.text import safe, shortened

COLUMN_PX, ROW_PX, HEAD_PX, MARGIN_PX = 54, 28, 104, 30
LANE_PX = 18
"""Between two lanes of one process."""
OFFSET_PX, TEXT_PX = 96, 470
LABEL_CHARACTERS = 64

PAST, POSSIBLE, FOCUS, BYSTANDER = "past", "possible", "focus", "bystander"
"""What a dot is to the event that was asked about: recorded to have led to it, possibly a cause, that event itself, or
neither."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One event to draw."""

    anchor: str
    """Id of the element that describes it in the page; letters, digits, ``-`` and ``_``."""
    process: str
    seq: int
    label: str
    title: str
    """Everything there is to say about it; shown when pointed at."""
    role: str
    time: int | None
    position: int
    causes: tuple[int, ...]
    """Positions of what led to it at one step, besides the event before it in its process."""
    loud: bool
    """Stands out among its like: a warning, an error, a change."""
    line: str | None = None
    """What its process was doing; None for what it does on no line."""
    follows: tuple[int, ...] | None = None
    """Positions of what it is recorded to follow within its process; None where that is the event before in it."""
    assumed: frozenset[int] = frozenset()
    """Those of `causes` that are only assumed."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message between two dots, or what else leads from one process to another, by their rows."""

    sent: int
    received: int
    backwards_by: int | None
    """How long before its sending the wall clocks show its receipt; None if they do not."""
    assumed: bool = False


def arrows(dots: Sequence[Dot]) -> list[Arrow]:
    """The messages of which both ends are among the dots."""
    rows = {dot.position: row for row, dot in enumerate(dots)}
    found = []
    for row, dot in enumerate(dots):
        for cause in (each for each in dot.causes if each in rows):
            left, came = dots[rows[cause]].time, dot.time
            early = 0 if left is None or came is None else left - came
            found.append(Arrow(rows[cause], row, early if early > 0 else None, cause in dot.assumed))
    return found


def diagram(dots: Sequence[Dot], *, unit: str, title: str, description: str, key: str = "diagram") -> str:
    """The dots as one SVG element, styled by `whence.web.style`; `key` keeps ids of several apart."""
    lanes = _lanes(dots)
    columns = _columns(dots, lanes)
    lines_px = max((x + LANE_PX * (count - 1) for x, count in columns.values()), default=MARGIN_PX) + MARGIN_PX
    width = lines_px + OFFSET_PX + TEXT_PX
    height = HEAD_PX + len(dots) * ROW_PX + 8
    at = [
        (columns[dot.process][0] + lanes[row] * LANE_PX, HEAD_PX + row * ROW_PX + ROW_PX // 2)
        for row, dot in enumerate(dots)
    ]
    focus = next((dot.time for dot in dots if dot.role == FOCUS), None)
    parts = [
        f'<svg class="diagram" role="group" aria-labelledby="{key}-title {key}-description" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">',
        f'<title id="{key}-title">{safe(title)}</title>',
        f'<desc id="{key}-description">{safe(description)}</desc>',
        "<defs>",
        *(_arrowhead(f"{key}-{name}", name) for name in ("onwards", "backwards")),
        "</defs>",
        *_heads(columns, height),
        *_steps(dots, at),
    ]
    parts += [_arrow(arrow, at, unit, key) for arrow in arrows(dots)]
    parts += [_row(dot, place, lines_px, width, focus, unit) for dot, place in zip(dots, at, strict=True)]
    parts.append("</svg>")
    return "\n".join(parts)


def _natural(name: str) -> tuple[object, ...]:
    """Sort key that puts stock-2 before stock-10."""
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.split(r"(\d+)", name) if part)


def _arrowhead(name: str, style: str) -> str:
    return (
        f'<marker id="{name}" class="{style}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.6 L8 4 L0 7.4 Z"/></marker>'
    )


def _lanes(dots: Sequence[Dot]) -> list[int]:
    """By row: its lane among those of its process. Lines that are not shown at the same time share one."""
    last = {(dot.process, dot.line): row for row, dot in enumerate(dots)}
    lane: dict[tuple[str, str | None], int] = {}
    busy: dict[str, list[int]] = {}
    found = []
    for row, dot in enumerate(dots):
        line = (dot.process, dot.line)
        until = busy.setdefault(dot.process, [])
        if line not in lane:
            free = next((place for place, end in enumerate(until) if end < row), len(until))
            until[free : free + 1] = [last[line]]
            lane[line] = free
        found.append(lane[line])
    return found


def _columns(dots: Sequence[Dot], lanes: Sequence[int]) -> dict[str, tuple[int, int]]:
    """By process, from left to right: where its first lane is, and how many it has."""
    counts: dict[str, int] = {}
    for dot, lane in zip(dots, lanes, strict=True):
        counts[dot.process] = max(counts.get(dot.process, 0), lane + 1)
    found, x = {}, MARGIN_PX
    for process in sorted(counts, key=_natural):
        found[process] = (x, counts[process])
        x += (counts[process] - 1) * LANE_PX + COLUMN_PX
    return found


def _heads(columns: dict[str, tuple[int, int]], height: int) -> list[str]:
    parts = []
    for process, (first, lanes) in columns.items():
        parts += [
            f'<line class="lifeline" x1="{x}" y1="{HEAD_PX}" x2="{x}" y2="{height - 8}"/>'
            for x in range(first, first + lanes * LANE_PX, LANE_PX)
        ]
        parts.append(
            f'<text class="process" transform="translate({first} {HEAD_PX - 10}) rotate(-48)">'
            f"{safe(shortened(process, 18))}<title>{safe(process)}</title></text>"
        )
    return parts


def _steps(dots: Sequence[Dot], at: list[tuple[int, int]]) -> list[str]:
    """Lines between events that are shown: to what each follows in its process, dashed where some in between are not."""
    rows = {dot.position: row for row, dot in enumerate(dots)}
    parts, last = [], dict[tuple[str, str | None], int]()
    for row, dot in enumerate(dots):
        before = last.get((dot.process, dot.line))
        last[dot.process, dot.line] = row
        if dot.follows is None:
            found = {} if before is None else {before: dot.seq == dots[before].seq + 1}
        else:
            found = {rows[each]: True for each in dot.follows if each in rows}
            if before is not None:
                found.setdefault(before, False)
        for earlier, is_next in sorted(found.items()):
            style = "step" if is_next else "step omits"
            if {BYSTANDER, POSSIBLE} & {dot.role, dots[earlier].role}:
                style += " beside"
            (x1, y1), (x2, y2) = at[earlier], at[row]
            parts.append(f'<line class="{style}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
    return parts


def _arrow(arrow: Arrow, at: list[tuple[int, int]], unit: str, key: str) -> str:
    (x1, y1), (x2, y2) = at[arrow.sent], at[arrow.received]
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    gap = 8 / length
    ends = (x1 + (x2 - x1) * gap, y1 + (y2 - y1) * gap, x2 - (x2 - x1) * gap, y2 - (y2 - y1) * gap)
    style = "onwards" if arrow.backwards_by is None else "backwards"
    where = 'x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"'.format(*ends)
    sort = "message assumed" if arrow.assumed else "message"
    line = f'<line class="{sort} {style}" {where} marker-end="url(#{key}-{style})"/>'
    if arrow.backwards_by is None:
        return line
    amount = safe(signed_span(-arrow.backwards_by, unit))
    x, y = x1 + (x2 - x1) * 0.5, y1 + (y2 - y1) * 0.5
    return line + f'<text class="amount" x="{x:.1f}" y="{y:.1f}" dy="-3">{amount}</text>'


def _row(dot: Dot, place: tuple[int, int], lines_px: int, width: int, focus: int | None, unit: str) -> str:
    x, y = place
    offset = "" if dot.role == FOCUS or dot.time is None or focus is None else signed_span(dot.time - focus, unit)
    after = dot.role != FOCUS and dot.time is not None and focus is not None and dot.time > focus
    ring = f'<circle class="ring" cx="{x}" cy="{y}" r="10"/>' if dot.role == FOCUS else ""
    style = f"event {dot.role}" + (" loud" if dot.loud else "")
    return (
        f'<a class="{style}" href="#{dot.anchor}"><title>{safe(dot.title)}</title>'
        f'<rect class="hit" x="0" y="{y - ROW_PX // 2}" width="{width}" height="{ROW_PX}" fill="none"/>{ring}'
        f'<circle class="dot" cx="{x}" cy="{y}" r="6"/>'
        f'<text class="offset{" after" if after else ""}" x="{lines_px + OFFSET_PX - 26}" y="{y}" dy="0.35em">'
        f"{safe(offset)}</text>"
        f'<text class="label" x="{lines_px + OFFSET_PX - 10}" y="{y}" dy="0.35em">'
        f"{safe(shortened(f'{dot.process} · {dot.label}', LABEL_CHARACTERS))}</text></a>"
    )
