"""``ledto clocks``: say how wrong the clocks of a history are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ledto.cli.grid import GAP, screen_width
from ledto.cli.history_options import HistoryArgument, JsonOption, open_or_exit
from ledto.cli.output import print_json, replace_file, say
from ledto.cli.render import print_rows
from ledto.cli.words import format_count
from ledto.durations import show_duration
from ledto.history.times import count_digits, format_time

if TYPE_CHECKING:
    from ledto.questions.clocks import ClockReport, Clocks
    from ledto.skew.offsets import ClockEstimate
    from ledto.skew.steps import ClockStep

PLOT_COLUMNS, LEAST_PLOT_COLUMNS = 31, 17
"""The width of the bars; they are left out where there is room for less."""
MOST_NAMED = 5
"""The most clocks that a sentence names; the table has all."""
REFERENCE, ONE_SIDED, UNKNOWN = "reference", "one side only", "unknown"
"""Verdicts of `ledto.skew.offsets.VERDICTS`, written out because that module is imported only when it is needed."""


def clocks(
    history: HistoryArgument,
    k: Annotated[int, typer.Option("-k", "--k", min=0, help="How many clocks to list.", metavar="N")] = 40,
    plot: Annotated[Path | None, typer.Option(help="Draw it, too: an SVG file to write.", metavar="FILE.svg")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which clocks are wrong, by how much, and how sure that is.

    For each clock: how far it is ahead of the others, within which bounds, and whether it is broken. The
    bounds follow from one fact: no message arrives before it is sent. What cannot be known is said.

    Example: ledto clocks shop.history --plot clocks.svg
    """
    if plot is not None and plot.suffix.lower() != ".svg":
        raise typer.BadParameter(f"a file that ends in .svg, which is what is written, not {plot}", param_hint="--plot")
    with open_or_exit(history) as opened:
        report, unit = opened.clocks(), opened.unit
    if plot is not None:
        from ledto.web.clocks_plot import draw_clocks

        with replace_file(plot) as file:
            file.write(draw_clocks(report, unit).encode())
    if as_json:
        print_json(report.to_json())
        return
    if not report.clocks:
        say("no event of this history has a wall time: there are no clocks to compare")
        return
    shown = sorted(report.clocks, key=_sort_key)[:k]
    _print_table(shown, _same_as_reference(report), unit)
    if len(shown) < len(report.clocks):
        say(f"and {len(report.clocks) - len(shown):,} more: -k {len(report.clocks)} lists all")
    for line in describe_clocks(report, unit):
        say(line)
    if plot is not None:
        say(f"drawn in {plot}")


def _sort_key(clock: ClockReport) -> tuple[bool, bool, int, str]:
    estimate = clock.estimate
    bounds = [abs(bound) for bound in (estimate.low, estimate.high) if bound is not None]
    return not clock.broken, not estimate.peers, -max(bounds, default=0), estimate.name


def _print_table(shown: Sequence[ClockReport], same: set[str], unit: str) -> None:
    drifting = any(clock.estimate.drift_low_ppm is not None for clock in shown)
    several = len({clock.estimate.reference for clock in shown} - {None}) > 1
    numbers = ["ahead by", "at least", "at most", *(["drift, ppm"] if drifting else []), "in", "out", "peers"]
    columns = ["clock", *numbers, *(["against"] if several else []), "verdict"]
    rows: list[list[str]] = []
    for clock in shown:
        estimate = clock.estimate
        drift = [_format_drift(estimate.drift_low_ppm, estimate.drift_high_ppm)] if drifting else []
        rows.append(
            [
                estimate.name,
                *(_format_signed(value, unit) for value in (estimate.offset, estimate.low, estimate.high)),
                *drift,
                f"{estimate.received:,}",
                f"{estimate.sent:,}",
                f"{estimate.peers:,}",
                *([estimate.reference or ""] if several else []),
                _format_verdict(clock, same),
            ]
        )
    taken = sum(max(map(len, texts)) + GAP for texts in zip(columns, *rows, strict=True))
    bars = min(PLOT_COLUMNS, screen_width() - taken)
    if bars >= LEAST_PLOT_COLUMNS:
        axis = _choose_axis(shown)
        columns.append(_draw_scale(axis, unit, bars))
        for row, clock in zip(rows, shown, strict=True):
            estimate = clock.estimate
            row.append(_draw_bar(estimate.low, estimate.high, axis, bars) if estimate.peers else "")
    print_rows(columns, rows, shrink=("clock", "against"), right=numbers)


def _format_verdict(clock: ClockReport, same: set[str]) -> str:
    estimate = clock.estimate
    if estimate.verdict == ONE_SIDED and estimate.name in same:
        return "agrees, by answers"
    return f"broken: {estimate.verdict}" if clock.broken else estimate.verdict


def describe_clocks(report: Clocks, unit: str) -> list[str]:
    """Say which clocks are broken, from which one offsets count, which agree, and how long messages and reports take."""
    references = [clock.estimate.name for clock in report.clocks if clock.estimate.verdict == REFERENCE]
    lines = [_describe_broken(clock, unit) for clock in report.broken]
    if references:
        lines = lines or ["no clock stands out from the others as broken"]
        named = (
            references[0]
            if len(references) == 1
            else f"{references[0]} and {format_count(len(references) - 1, 'other')}, one in each group of clocks"
        )
        lines.append(f"offsets count from {named}, in the middle: no log tells which clock shows the true time")
    else:
        lines.append("no messages between clocks")
    lines += _describe_same(report, unit)
    lines += _describe_open_sides(report, unit)
    lines.append(_describe_eps(report, unit))
    for what, delays in (("messages", report.message_delays), ("reports", report.report_delays)):
        lines.append(_describe_delays(what, delays, unit))
    return lines


def _describe_same(report: Clocks, unit: str) -> list[str]:
    """Write a sentence for each set of clocks that cannot be told apart."""
    lines = []
    for same in report.same[:MOST_NAMED]:
        named = ", ".join(same.names[:MOST_NAMED])
        if len(same.names) > MOST_NAMED:
            named += f" and {format_count(len(same.names) - MOST_NAMED, 'other')}"
        rests_on = ", if clients that did not fail waited for their servers" if same.by_answers else ""
        lines.append(
            f"one clock, as far as can be told: {named} are at most {show_duration(same.apart, unit)} apart{rests_on}"
        )
    return lines


def _same_as_reference(report: Clocks) -> set[str]:
    """Name the clocks that cannot be told apart from their reference."""
    together = {name: same.names for same in report.same for name in same.names}
    return {
        clock.estimate.name
        for clock in report.clocks
        if clock.estimate.reference in together.get(clock.estimate.name, ())
    }


def _describe_open_sides(report: Clocks, unit: str) -> list[str]:
    """Write a sentence for each clock that messages bound on one side or not at all: its bound, and why there is no other.

    Leaves out clocks that cannot be told apart from their reference: `_describe_same` says more of them.
    """
    same = _same_as_reference(report)
    one_sided = [
        clock.estimate
        for clock in report.clocks
        if clock.estimate.verdict == ONE_SIDED and clock.estimate.name not in same
    ]
    lines = [_describe_one_side(estimate, unit) for estimate in one_sided[:MOST_NAMED]]
    if len(one_sided) > MOST_NAMED:
        lines.append(
            f"one side only: {format_count(len(one_sided) - MOST_NAMED, 'more clock')}, with bounds in the table above"
        )
    strangers = [
        clock.estimate.name for clock in report.clocks if clock.estimate.verdict == UNKNOWN and clock.estimate.peers
    ]
    if strangers:
        named = ", ".join(strangers[:MOST_NAMED]) + (" and others" if len(strangers) > MOST_NAMED else "")
        lines.append(f"unknown: {named}: messages only with clocks that contradict the others, or are far from them")
    return lines


def _describe_one_side(estimate: ClockEstimate, unit: str) -> str:
    if estimate.low is None:
        bound = _format_side(estimate.high or 0, "at most", "ahead of", "at least", "behind", unit)
        missing = "from it there"
    else:
        bound = _format_side(-estimate.low, "at most", "behind", "at least", "ahead of", unit)
        missing = "from there to it"
    return f"one side only: {estimate.name} is {bound} {estimate.reference}; no message leads {missing}, so no more is known"


def _format_side(value: int, limit: str, side: str, other_limit: str, other_side: str, unit: str) -> str:
    if value >= 0:
        return f"{limit} {show_duration(value, unit)} {side}"
    return f"{other_limit} {show_duration(-value, unit)} {other_side}"


def _describe_broken(clock: ClockReport, unit: str) -> str:
    estimate = clock.estimate
    name = (
        f"{estimate.name} (or {' or '.join(estimate.alternatives)}: the messages cannot tell)"
        if estimate.alternatives
        else estimate.name
    )
    if estimate.verdict == "steps":
        settings = [
            f"{_describe_step(step, unit)} between {_format_when(step.first, unit)} and {_format_when(step.last, unit)}"
            for step in estimate.steps
        ]
        return f"broken: the clock of {name} was set: {'; '.join(settings)}"
    if estimate.verdict == "erratic":
        return f"broken: the clock of {name} contradicts the others, and neither drift nor steps explain how"
    nearest = estimate.low if estimate.low is not None and estimate.low > 0 else estimate.high
    side = "ahead of" if nearest is not None and nearest > 0 else "behind"
    amount = show_duration(abs(nearest or 0), unit)
    return f"broken: the clock of {name} is {amount} or more {side} the others, far more than they differ"


def _describe_step(step: ClockStep, unit: str) -> str:
    if step.low is not None and step.low > 0:
        return f"ahead by {show_duration(step.low, unit)} or more"
    return f"back by {show_duration(-(step.high or 0), unit)} or more"


def _describe_eps(report: Clocks, unit: str) -> str:
    least, most, unbounded = (report.eps[name] for name in ("at_least", "at_most", "unbounded"))
    if not report.groups:
        return "how far clocks differ cannot be known"
    upper = (
        f"; how much at most cannot be known of {unbounded:,}, which are not bounded on both sides"
        if most is None
        else f" and {show_duration(most, unit)} at most"
    )
    return f"clocks differ by {show_duration(least, unit)} at least{upper}{_describe_eps_used(report, unit)}"


def _describe_eps_used(report: Clocks, unit: str) -> str:
    """Say which eps the history was made with, and why that is enough, or not.

    Clocks may differ by more: eps only has to cover what messages and the order of each process show.
    """
    if report.eps_used is None or report.lag is None:
        return ""
    lag, used = show_duration(report.lag, unit), show_duration(report.eps_used, unit)
    if report.lag > report.eps_used:
        return (
            f". The history was made with eps {used}, which is too little: an event is {lag} before one of its causes"
        )
    reason = f"no event is more than {lag} before one of its causes" if report.lag else "no event is before its causes"
    return f". For the order, eps {used} was enough: {reason}"


def _describe_delays(what: str, delays: dict[str, int], unit: str) -> str:
    if not delays["count"]:
        missing = "no report has an arrival time" if what == "reports" else "no messages between clocks"
        return f"delay of {what}: cannot be known, {missing}"
    shown = ", ".join(f"{name} {show_duration(delays[name], unit)}" for name in ("p50", "p99", "max"))
    early = delays.get("before_event", 0)
    by = "the collector's clock and each event's" if what == "reports" else "the clocks at both ends"
    return (
        f"delay of {what}: {shown}, by {by}, over {delays['count']:,}"
        + (f"; {early:,} arrived before their event" if early else "")
        + (
            f"; the longest takes about {show_duration(delays['corrected_max'], unit)} if each offset is the middle of its "
            f"bounds, over {delays['corrected_count']:,}"
            if delays.get("corrected_count")
            else ""
        )
    )


def _format_signed(value: int | None, unit: str) -> str:
    return "?" if value is None else f"{'-' if value < 0 else '+' if value else ''}{show_duration(abs(value), unit)}"


def _format_drift(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return f"{(low + high) / 2:+.3g} ±{(high - low) / 2:.2g}"


def _format_when(time: int, unit: str) -> str:
    return format_time(time, unit, digits=min(6, count_digits([time], unit)))


def _choose_axis(shown: Sequence[ClockReport]) -> tuple[int, int]:
    """Choose the ends of the axis of the bars, from clocks that are not broken if there are any."""
    for chosen in ([clock for clock in shown if not clock.broken], shown):
        ends = [end for clock in chosen for end in (clock.estimate.low, clock.estimate.high) if end is not None]
        if any(ends):
            return min(0, *ends), max(0, *ends)
    return -1, 1


def _draw_scale(axis: tuple[int, int], unit: str, columns: int) -> str:
    left, right = _format_signed(axis[0], unit), _format_signed(axis[1], unit)
    return f"{left}{right:>{max(1, columns - len(left))}}"


def _draw_bar(low: int | None, high: int | None, axis: tuple[int, int], columns: int) -> str:
    """Draw the bounds on the axis; with arrows where they lie beyond it or are not known."""
    first, last = axis
    width = max(1, last - first)
    cells = [" "] * columns

    def column(value: int) -> int:
        return min(columns - 1, max(0, (value - first) * (columns - 1) // width))

    cells[column(0)] = "|"
    left, right = first - 1 if low is None else low, last + 1 if high is None else high
    if right < first or left > last:
        cells[0 if right < first else -1] = "<" if right < first else ">"
        return "".join(cells)
    for at in range(column(left), column(right) + 1):
        cells[at] = "="
    if left < first:
        cells[0] = "<"
    if right > last:
        cells[-1] = ">"
    return "".join(cells).rstrip()
