"""The clocks of a history as one SVG file: the bounds of each one's offset, and how they changed over time.

The second part is drawn only where a clock drifts, wanders or was set. The file holds its own style, light or dark as
the reader's system is, and needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whence.history.questions.clocks import Clock, Clocks
from whence.web.spans import signed_span, span, wall_time
from whence.web.text import safe, shortened

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
"""Colours as in `whence.web.style`, spelt out: many programs that show SVG know no variables."""


def clocks_plot(found: Clocks, unit: str) -> str:
    """The whole file."""
    drawn = sorted((each for each in found.clocks if each.estimate.peers), key=_order)[:MOST_ROWS]
    moving = [each for each in drawn if each.estimate.verdict in MOVING and len(each.estimate.track) > 1][:MOST_TRACKS]
    rows_px = HEAD_PX + len(drawn) * ROW_PX + MARGIN_PX
    height = rows_px + (TRACKS_PX + HEAD_PX if moving else 0) + MARGIN_PX
    width = NAME_PX + AXIS_PX + TEXT_PX + 2 * MARGIN_PX
    left_out = len(found.clocks) - len(drawn)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        "<title>How far each clock is ahead of the reference</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="{MARGIN_PX}" y="26">How far each clock is ahead of the reference</text>',
        *_ranges(drawn, unit),
        *(_tracks(moving, unit, rows_px) if moving else ()),
    ]
    if left_out:
        parts.append(
            f'<text class="muted" x="{MARGIN_PX}" y="{height - 6}">{left_out:,} more clocks are not drawn</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _order(clock: Clock) -> tuple[bool, str]:
    return not clock.broken, clock.estimate.name


def _scale(low: int, high: int, first_px: float, last_px: float) -> Callable[[int], float]:
    extent = max(1, high - low)
    return lambda value: first_px + (last_px - first_px) * min(1.0, max(0.0, (value - low) / extent))


def _extent(clocks: Sequence[Clock]) -> tuple[int, int]:
    """Broken clocks do not decide what is drawn, unless there are no others."""
    for chosen in ([each for each in clocks if not each.broken], clocks):
        ends = [end for each in chosen for end in (each.estimate.low, each.estimate.high) if end is not None]
        if any(ends):
            return min(0, *ends), max(0, *ends)
    return -1, 1


def _ranges(drawn: Sequence[Clock], unit: str) -> list[str]:
    low, high = _extent(drawn)
    left, right = MARGIN_PX + NAME_PX, MARGIN_PX + NAME_PX + AXIS_PX
    at = _scale(low, high, left + 8, right - 8)
    bottom = HEAD_PX + len(drawn) * ROW_PX
    parts = [
        f'<line class="zero" x1="{at(0):.1f}" y1="{HEAD_PX - 6}" x2="{at(0):.1f}" y2="{bottom}"/>',
        f'<text class="muted" x="{left}" y="{HEAD_PX - 12}">{safe(signed_span(low, unit))}</text>',
        f'<text class="muted end" x="{right}" y="{HEAD_PX - 12}">{safe(signed_span(high, unit))}</text>',
    ]
    for row, clock in enumerate(drawn):
        it, y = clock.estimate, HEAD_PX + row * ROW_PX + ROW_PX / 2
        ends = [at(low if it.low is None else it.low), at(high if it.high is None else it.high)]
        both = it.low is not None and it.high is not None
        label = f"{it.name}: {_bounds(clock, unit)}; {it.verdict}; {clock.confidence}"
        parts.append(
            f'<g class="clock{" broken" if clock.broken else ""}"><title>{safe(label)}</title>'
            f'<text x="{MARGIN_PX}" y="{y}" dy="0.35em">{safe(shortened(it.name, 20))}</text>'
            f'<line class="axis" x1="{left}" y1="{y}" x2="{right}" y2="{y}"/>'
            f'<line class="range{"" if both else " open"}" x1="{ends[0]:.1f}" y1="{y}" x2="{ends[1] + 0.1:.1f}" y2="{y}"/>'
            f'<text class="muted" x="{right + 12}" y="{y}" dy="0.35em">'
            f"{safe(f'{_bounds(clock, unit)} · {it.verdict}')}</text></g>"
        )
    return parts


def _bounds(clock: Clock, unit: str) -> str:
    it = clock.estimate
    low, high = ("?" if each is None else signed_span(each, unit) for each in (it.low, it.high))
    return f"{low} … {high}"


def _tracks(moving: Sequence[Clock], unit: str, top: int) -> list[str]:
    """Bands of what offsets can have been, over time."""
    moments = [moment for clock in moving for moment in clock.estimate.track]
    values = [end for moment in moments for end in (moment.low, moment.high) if end is not None]
    first, last = min(moment.time for moment in moments), max(moment.time for moment in moments)
    low, high = min([0, *values]), max([0, *values])
    left, right = MARGIN_PX + NAME_PX, MARGIN_PX + NAME_PX + AXIS_PX
    ceiling, floor = top + HEAD_PX, top + HEAD_PX + TRACKS_PX
    x, y = _scale(first, last, left, right), _scale(low, high, floor - 8, ceiling + 8)
    parts = [
        f'<text class="title" x="{MARGIN_PX}" y="{top + 26}">Over time, by the reference</text>',
        f'<line class="zero" x1="{left}" y1="{y(0):.1f}" x2="{right}" y2="{y(0):.1f}"/>',
        f'<text class="muted end" x="{left - 8}" y="{ceiling + 12}">{safe(signed_span(high, unit))}</text>',
        f'<text class="muted end" x="{left - 8}" y="{floor}">{safe(signed_span(low, unit))}</text>',
        f'<text class="muted" x="{left}" y="{ceiling - 6}">{safe(wall_time(first, unit))}</text>',
        f'<text class="muted end" x="{right}" y="{ceiling - 6}">{safe(f"{span(last - first, unit)} later")}</text>',
    ]
    labels: list[tuple[float, str]] = []
    for clock in moving:
        it = clock.estimate
        upper = [(moment.time, high if moment.high is None else moment.high) for moment in it.track]
        lower = [(moment.time, low if moment.low is None else moment.low) for moment in it.track]
        points = " ".join(f"{x(time):.1f},{y(value):.1f}" for time, value in [*upper, *reversed(lower)])
        labels.append((y((upper[-1][1] + lower[-1][1]) // 2), it.name))
        parts.append(
            f'<g class="track{" broken" if clock.broken else ""}"><title>{safe(it.name)}</title>'
            f'<polygon class="band" points="{points}"/></g>'
        )
    below = float("-inf")
    for at, name in sorted(labels):
        below = max(at, below + 14)
        parts.append(f'<text x="{right + 12}" y="{below:.1f}" dy="0.35em">{safe(shortened(name, 24))}</text>')
    return parts
