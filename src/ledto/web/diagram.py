"""Draw a space-time diagram as SVG: a lane for each line of a process, a row for each event, causes above effects.

Times are whole numbers in a history's unit; `format_duration` and `format_wall_time` write them for people.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ledto.web.style import escape, shorten

COLUMN_PX, ROW_PX, HEAD_PX, MARGIN_PX = 54, 28, 104, 30
LANE_PX = 18
"""The distance of two lanes of one process."""
OFFSET_PX, TEXT_PX = 96, 470
LABEL_CHARACTERS = 64

PAST, POSSIBLE, FOCUS, BYSTANDER = "past", "possible", "focus", "bystander"
"""The role of a dot: recorded cause of the event that was asked about, possible cause, that event itself, or neither."""


UNIT_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Nanoseconds in a unit. Other units, such as tick, have no length in seconds."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Dot:
    """One event to draw."""

    anchor: str
    """The id of the element that describes it in the page; letters, digits, ``-`` and ``_``."""
    process: str
    seq: int
    label: str
    title: str
    """A full description, which is shown when pointed at."""
    role: str
    time: int | None
    position: int
    causes: tuple[int, ...]
    """Positions of its direct causes, without the event before it in its process."""
    loud: bool
    """Whether it stands out: a warning, an error, a change."""
    line: str | None = None
    """Its line; None for an event without a line."""
    follows: tuple[int, ...] | None = None
    """Positions of the events that it is recorded to follow within its process; None if that is the event before it."""
    assumed: frozenset[int] = frozenset()
    """Those of `causes` that are only assumed."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message, or another step from one process to another, between the dots of two rows."""

    sent: int
    """The row of the cause."""
    received: int
    """The row of the effect."""
    backwards_by: int | None
    """How long the wall clocks show it received before it was sent; None if they do not."""
    assumed: bool = False


def find_arrows(dots: Sequence[Dot]) -> list[Arrow]:
    """List the messages with both ends among the dots."""
    rows = {dot.position: row for row, dot in enumerate(dots)}
    arrows = []
    for row, dot in enumerate(dots):
        for cause in (cause for cause in dot.causes if cause in rows):
            sent, received = dots[rows[cause]].time, dot.time
            early = 0 if sent is None or received is None else sent - received
            arrows.append(Arrow(rows[cause], row, early if early > 0 else None, cause in dot.assumed))
    return arrows


def draw_diagram(dots: Sequence[Dot], *, unit: str, title: str, description: str, key: str = "diagram") -> str:
    """Draw the dots as one SVG element for the style of `ledto.web.style`; `key` keeps ids of several diagrams apart."""
    lanes = _assign_lanes(dots)
    columns = _place_columns(dots, lanes)
    lines_px = max((x + LANE_PX * (count - 1) for x, count in columns.values()), default=MARGIN_PX) + MARGIN_PX
    width = lines_px + OFFSET_PX + TEXT_PX
    height = HEAD_PX + len(dots) * ROW_PX + 8
    places = [
        (columns[dot.process][0] + lanes[row] * LANE_PX, HEAD_PX + row * ROW_PX + ROW_PX // 2)
        for row, dot in enumerate(dots)
    ]
    focus = next((dot.time for dot in dots if dot.role == FOCUS), None)
    parts = [
        f'<svg class="diagram" role="group" aria-labelledby="{key}-title {key}-description" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">',
        f'<title id="{key}-title">{escape(title)}</title>',
        f'<desc id="{key}-description">{escape(description)}</desc>',
        "<defs>",
        *(_draw_arrowhead(f"{key}-{name}", name) for name in ("onwards", "backwards")),
        "</defs>",
        *_draw_heads(columns, height),
        *_draw_steps(dots, places),
    ]
    parts += [_draw_arrow(arrow, places, unit, key) for arrow in find_arrows(dots)]
    parts += [_draw_row(dot, place, lines_px, width, focus, unit) for dot, place in zip(dots, places, strict=True)]
    parts.append("</svg>")
    return "\n".join(parts)


def _natural_key(name: str) -> tuple[object, ...]:
    """Return a sort key that puts stock-2 before stock-10."""
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.split(r"(\d+)", name) if part)


def _draw_arrowhead(name: str, style: str) -> str:
    return (
        f'<marker id="{name}" class="{style}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.6 L8 4 L0 7.4 Z"/></marker>'
    )


def _assign_lanes(dots: Sequence[Dot]) -> list[int]:
    """Return the lane of each dot within its process. Lines that do not overlap share a lane."""
    last_row = {(dot.process, dot.line): row for row, dot in enumerate(dots)}
    lane_of: dict[tuple[str, str | None], int] = {}
    busy_until: dict[str, list[int]] = {}
    lanes = []
    for row, dot in enumerate(dots):
        line = (dot.process, dot.line)
        ends = busy_until.setdefault(dot.process, [])
        if line not in lane_of:
            free = next((lane for lane, end in enumerate(ends) if end < row), len(ends))
            ends[free : free + 1] = [last_row[line]]
            lane_of[line] = free
        lanes.append(lane_of[line])
    return lanes


def _place_columns(dots: Sequence[Dot], lanes: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Return for each process, from left to right: the x of its first lane, and the number of lanes."""
    counts: dict[str, int] = {}
    for dot, lane in zip(dots, lanes, strict=True):
        counts[dot.process] = max(counts.get(dot.process, 0), lane + 1)
    columns, x = {}, MARGIN_PX
    for process in sorted(counts, key=_natural_key):
        columns[process] = (x, counts[process])
        x += (counts[process] - 1) * LANE_PX + COLUMN_PX
    return columns


def _draw_heads(columns: dict[str, tuple[int, int]], height: int) -> list[str]:
    """Draw the names of processes, and their lanes."""
    parts = []
    for process, (first, lanes) in columns.items():
        parts += [
            f'<line class="lifeline" x1="{x}" y1="{HEAD_PX}" x2="{x}" y2="{height - 8}"/>'
            for x in range(first, first + lanes * LANE_PX, LANE_PX)
        ]
        parts.append(
            f'<text class="process" transform="translate({first} {HEAD_PX - 10}) rotate(-48)">'
            f"{escape(shorten(process, 18))}<title>{escape(process)}</title></text>"
        )
    return parts


def _draw_steps(dots: Sequence[Dot], places: list[tuple[int, int]]) -> list[str]:
    """Draw lines from each event to those that it follows in its process; dashed if events between them are not shown."""
    rows = {dot.position: row for row, dot in enumerate(dots)}
    parts, last = [], dict[tuple[str, str | None], int]()
    for row, dot in enumerate(dots):
        before = last.get((dot.process, dot.line))
        last[dot.process, dot.line] = row
        # By earlier row: whether no event is left out between.
        is_direct: dict[int, bool] = {}
        if dot.follows is not None:
            is_direct = {rows[position]: True for position in dot.follows if position in rows}
        if before is not None:
            is_direct.setdefault(before, dot.follows is None and dot.seq == dots[before].seq + 1)
        for earlier, direct in sorted(is_direct.items()):
            style = "step" if direct else "step omits"
            if {BYSTANDER, POSSIBLE} & {dot.role, dots[earlier].role}:
                style += " beside"
            (x1, y1), (x2, y2) = places[earlier], places[row]
            parts.append(f'<line class="{style}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
    return parts


def _draw_arrow(arrow: Arrow, places: list[tuple[int, int]], unit: str, key: str) -> str:
    (x1, y1), (x2, y2) = places[arrow.sent], places[arrow.received]
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    gap = 8 / length
    ends = (x1 + (x2 - x1) * gap, y1 + (y2 - y1) * gap, x2 - (x2 - x1) * gap, y2 - (y2 - y1) * gap)
    style = "onwards" if arrow.backwards_by is None else "backwards"
    coordinates = 'x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"'.format(*ends)
    kind = "message assumed" if arrow.assumed else "message"
    line = f'<line class="{kind} {style}" {coordinates} marker-end="url(#{key}-{style})"/>'
    if arrow.backwards_by is None:
        return line
    amount = escape(format_signed_duration(-arrow.backwards_by, unit))
    x, y = x1 + (x2 - x1) * 0.5, y1 + (y2 - y1) * 0.5
    return line + f'<text class="amount" x="{x:.1f}" y="{y:.1f}" dy="-3">{amount}</text>'


def _draw_row(dot: Dot, place: tuple[int, int], lines_px: int, width: int, focus: int | None, unit: str) -> str:
    """Draw a dot and its texts; `focus` is the wall time of the event that was asked about."""
    x, y = place
    offset = (
        "" if dot.role == FOCUS or dot.time is None or focus is None else format_signed_duration(dot.time - focus, unit)
    )
    after = dot.role != FOCUS and dot.time is not None and focus is not None and dot.time > focus
    ring = f'<circle class="ring" cx="{x}" cy="{y}" r="10"/>' if dot.role == FOCUS else ""
    style = f"event {dot.role}" + (" loud" if dot.loud else "")
    return (
        f'<a class="{style}" href="#{dot.anchor}"><title>{escape(dot.title)}</title>'
        f'<rect class="hit" x="0" y="{y - ROW_PX // 2}" width="{width}" height="{ROW_PX}" fill="none"/>{ring}'
        f'<circle class="dot" cx="{x}" cy="{y}" r="6"/>'
        f'<text class="offset{" after" if after else ""}" x="{lines_px + OFFSET_PX - 26}" y="{y}" dy="0.35em">'
        f"{escape(offset)}</text>"
        f'<text class="label" x="{lines_px + OFFSET_PX - 10}" y="{y}" dy="0.35em">'
        f"{escape(shorten(f'{dot.process} · {dot.label}', LABEL_CHARACTERS))}</text></a>"
    )


def format_duration(value: float, unit: str) -> str:
    """Format a length of time with two or three digits: ``283 ms``, ``1.9 s``, ``12 ticks``."""
    if unit not in UNIT_NS:
        return f"{value:,.4g} {unit}{'' if value == 1 else 's'}"
    ns = value * UNIT_NS[unit]
    for name, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)):
        if abs(ns) >= size:
            amount = ns / size
            return f"{amount:,.0f} {name}" if abs(amount) >= 100 else f"{amount:.3g} {name}"
    return f"{ns:.0f} ns"


def format_signed_duration(value: int, unit: str) -> str:
    """Format a length of time with its sign; a minus sign, not a hyphen."""
    return f"{'−' if value < 0 else '+'}{format_duration(abs(value), unit)}"


def format_wall_time(value: int | None, unit: str) -> str:
    """Format a wall time as date and time in UTC, or as a number if the unit has no length in seconds."""
    if value is None:
        return "unknown"
    if unit not in UNIT_NS:
        return str(value)
    ns = value * UNIT_NS[unit]
    try:
        moment = EPOCH + timedelta(microseconds=ns // 1_000)
    except OverflowError:
        return str(value)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{ns // 1_000 % 1_000_000:06d}"
