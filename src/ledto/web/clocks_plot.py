"""Draw the clocks of a history as one SVG file: the bounds of each clock's offset, and how they changed over time.

The second part is drawn only if a clock drifts, wanders or was set. The file contains its own style, which is light or
dark like the reader's system, and needs no other file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ledto.questions.clocks import ClockReport, Clocks
from ledto.web.diagram import format_duration, format_signed_duration, format_wall_time
from ledto.web.style import escape, shorten

NAME_PX, AXIS_PX, TEXT_PX, MARGIN_PX = 150, 420, 260, 16
ROW_PX, HEAD_PX, TRACKS_PX = 24, 64, 260
MOST_ROWS = 200
MOST_TRACKS = 12
MOVING = ("drifts", "wanders", "steps", "erratic")

STYLE = """
svg { background: #fcfcfa; font: 13px system-ui, sans-serif; }
text { fill: #1d2328; } .muted { fill: #5d6872; } .title { font-size: 16px; font-weight: 600; }
.end { text-anchor: end; } .axis { stroke: #d9dde0; } .zero { stroke: #5d6872; }
.range { stroke: #2463a8; stroke-width: 7; stroke-linecap: round; } .open { stroke-dasharray: 2 9; }
.band { fill: #2463a8; fill-opacity: .22; stroke: #2463a8; stroke-width: 1.2; }
.broken .range { stroke: #b3201d; } .broken .band { fill: #b3201d; stroke: #b3201d; }
.broken text { fill: #b3201d; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  svg { background: #14181b; } text { fill: #e6e9eb; } .muted { fill: #9fabb5; }
  .axis { stroke: #343c43; } .zero { stroke: #9fabb5; } .range { stroke: #79b4f2; }
  .band { fill: #79b4f2; stroke: #79b4f2; } .broken text { fill: #ff8a80; }
  .broken .range { stroke: #ff8a80; } .broken .band { fill: #ff8a80; stroke: #ff8a80; }
}
"""
"""Colours as in `ledto.web.style`, written out: many programs that show SVG do not support CSS variables."""


def draw_clocks(clocks: Clocks, unit: str) -> str:
    """Draw the clocks; return the text of the SVG file."""
    drawn = sorted((clock for clock in clocks.clocks if clock.estimate.peers), key=_sort_key)[:MOST_ROWS]
    moving = [clock for clock in drawn if clock.estimate.verdict in MOVING and len(clock.estimate.track) > 1]
    moving = moving[:MOST_TRACKS]
    rows_px = HEAD_PX + len(drawn) * ROW_PX + MARGIN_PX
    height = rows_px + (TRACKS_PX + HEAD_PX if moving else 0) + MARGIN_PX
    width = NAME_PX + AXIS_PX + TEXT_PX + 2 * MARGIN_PX
    left_out = len(clocks.clocks) - len(drawn)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        "<title>How far each clock is ahead of the reference</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="{MARGIN_PX}" y="26">How far each clock is ahead of the reference</text>',
        *_draw_ranges(drawn, unit),
        *(_draw_tracks(moving, unit, rows_px) if moving else ()),
    ]
    if left_out:
        parts.append(
            f'<text class="muted" x="{MARGIN_PX}" y="{height - 6}">{left_out:,} more clocks are not drawn</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _sort_key(clock: ClockReport) -> tuple[bool, str]:
    return not clock.broken, clock.estimate.name


def _scale(low: int, high: int, first_px: float, last_px: float) -> Callable[[int], float]:
    """Make a function from values to pixels; values beyond `low` and `high` are drawn at the ends."""
    extent = max(1, high - low)
    return lambda value: first_px + (last_px - first_px) * min(1.0, max(0.0, (value - low) / extent))


def _extent(clocks: Sequence[ClockReport]) -> tuple[int, int]:
    """Return the least and greatest offset, with 0 included; of broken clocks only if there are no others."""
    for chosen in ([clock for clock in clocks if not clock.broken], clocks):
        ends = [end for clock in chosen for end in (clock.estimate.low, clock.estimate.high) if end is not None]
        if any(ends):
            return min(0, *ends), max(0, *ends)
    return -1, 1


def _draw_ranges(drawn: Sequence[ClockReport], unit: str) -> list[str]:
    """Draw a row for each clock, with the bounds of its offset."""
    low, high = _extent(drawn)
    left, right = MARGIN_PX + NAME_PX, MARGIN_PX + NAME_PX + AXIS_PX
    at = _scale(low, high, left + 8, right - 8)
    bottom = HEAD_PX + len(drawn) * ROW_PX
    parts = [
        f'<line class="zero" x1="{at(0):.1f}" y1="{HEAD_PX - 6}" x2="{at(0):.1f}" y2="{bottom}"/>',
        f'<text class="muted" x="{left}" y="{HEAD_PX - 12}">{escape(format_signed_duration(low, unit))}</text>',
        f'<text class="muted end" x="{right}" y="{HEAD_PX - 12}">{escape(format_signed_duration(high, unit))}</text>',
    ]
    for row, clock in enumerate(drawn):
        estimate, y = clock.estimate, HEAD_PX + row * ROW_PX + ROW_PX / 2
        first = at(low if estimate.low is None else estimate.low)
        last = at(high if estimate.high is None else estimate.high)
        is_bounded = estimate.low is not None and estimate.high is not None
        bounds = _format_bounds(clock, unit)
        title = f"{estimate.name}: {bounds}; {estimate.verdict}; {clock.confidence}"
        parts.append(
            f'<g class="clock{" broken" if clock.broken else ""}"><title>{escape(title)}</title>'
            f'<text x="{MARGIN_PX}" y="{y}" dy="0.35em">{escape(shorten(estimate.name, 20))}</text>'
            f'<line class="axis" x1="{left}" y1="{y}" x2="{right}" y2="{y}"/>'
            f'<line class="range{"" if is_bounded else " open"}" '
            f'x1="{first:.1f}" y1="{y}" x2="{last + 0.1:.1f}" y2="{y}"/>'
            f'<text class="muted" x="{right + 12}" y="{y}" dy="0.35em">'
            f"{escape(f'{bounds} · {estimate.verdict}')}</text></g>"
        )
    return parts


def _format_bounds(clock: ClockReport, unit: str) -> str:
    ends = (clock.estimate.low, clock.estimate.high)
    low, high = ("?" if end is None else format_signed_duration(end, unit) for end in ends)
    return f"{low} … {high}"


def _draw_tracks(moving: Sequence[ClockReport], unit: str, top: int) -> list[str]:
    """Draw a band for each clock: its possible offsets over time."""
    moments = [moment for clock in moving for moment in clock.estimate.track]
    values = [end for moment in moments for end in (moment.low, moment.high) if end is not None]
    first, last = min(moment.time for moment in moments), max(moment.time for moment in moments)
    low, high = min([0, *values]), max([0, *values])
    left, right = MARGIN_PX + NAME_PX, MARGIN_PX + NAME_PX + AXIS_PX
    ceiling, floor = top + HEAD_PX, top + HEAD_PX + TRACKS_PX
    x, y = _scale(first, last, left, right), _scale(low, high, floor - 8, ceiling + 8)
    length = format_duration(last - first, unit)
    parts = [
        f'<text class="title" x="{MARGIN_PX}" y="{top + 26}">Over time, by the reference</text>',
        f'<line class="zero" x1="{left}" y1="{y(0):.1f}" x2="{right}" y2="{y(0):.1f}"/>',
        f'<text class="muted end" x="{left - 8}" y="{ceiling + 12}">{escape(format_signed_duration(high, unit))}</text>',
        f'<text class="muted end" x="{left - 8}" y="{floor}">{escape(format_signed_duration(low, unit))}</text>',
        f'<text class="muted" x="{left}" y="{ceiling - 6}">{escape(format_wall_time(first, unit))}</text>',
        f'<text class="muted end" x="{right}" y="{ceiling - 6}">{escape(length)} later</text>',
    ]
    labels: list[tuple[float, str]] = []
    for clock in moving:
        name, track = clock.estimate.name, clock.estimate.track
        upper = [(moment.time, high if moment.high is None else moment.high) for moment in track]
        lower = [(moment.time, low if moment.low is None else moment.low) for moment in track]
        points = " ".join(f"{x(time):.1f},{y(value):.1f}" for time, value in [*upper, *reversed(lower)])
        labels.append((y((upper[-1][1] + lower[-1][1]) // 2), name))
        parts.append(
            f'<g class="track{" broken" if clock.broken else ""}"><title>{escape(name)}</title>'
            f'<polygon class="band" points="{points}"/></g>'
        )
    # Labels that would overlap move down.
    label_y = float("-inf")
    for wanted_y, name in sorted(labels):
        label_y = max(wanted_y, label_y + 14)
        parts.append(f'<text x="{right + 12}" y="{label_y:.1f}" dy="0.35em">{escape(shorten(name, 24))}</text>')
    return parts
