"""Make the chapter on Berry's paper: Table 1, Figures 6 and 7, as ratios to the plain call.

The milliseconds of 1990s workstations cannot be compared; the ratio of a stamped call to a plain one can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import correlation
from typing import TYPE_CHECKING

from ledto.papers.artefacts import Artefact
from ledto.papers.findings import Statement, StatementVerdict, all_of
from ledto.papers.report import Chapter, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ledto.papers.rpc import Timed, Timings

TABLE_1 = {"plain": (3.8, 2.3), "vector": (4.9, 3.1), "ordering": (5.4, 3.2)}
"""Berry's Table 1: round trip and client CPU in milliseconds, at the smallest stamps."""
READINGS = ("whole", "channel")
"""How a stamp is sent: whole, as in Berry's experiment, or through a channel, which sends only changes."""
FIGURES = ("table1", "fig6", "fig7")


@dataclass(frozen=True, slots=True)
class ReadingTimes:
    """The timings of one reading."""

    timings: Timings
    reading: str

    def at(self, clock: str, size: int) -> Timed:
        """Return the timings of "vector" or "ordering" stamps."""
        return self.timings[size][f"{clock}-{self.reading}"]

    @property
    def largest(self) -> int:
        """Return the largest size."""
        return max(self.timings)


def _at_most_stated(clock: str, column: int) -> Callable[[ReadingTimes], StatementVerdict]:
    limit = TABLE_1[clock][column] / TABLE_1["plain"][column]

    def check(sent: ReadingTimes) -> StatementVerdict:
        timed = sent.at(clock, 2)
        ratio = (timed.round_trip_ratio, timed.cpu_ratio)[column]
        low, high = (timed.round_trip_quartiles, timed.cpu_quartiles)[column]
        return StatementVerdict(f"{ratio:.3f} times (quartiles {low:.3f} to {high:.3f})", ratio <= limit)

    return check


def _small_overhead(sent: ReadingTimes) -> StatementVerdict:
    ratios = {clock: sent.at(clock, 2).round_trip_ratio for clock in ("vector", "ordering")}
    return all_of((f"{clock} {ratio:.3f} times", 1 < ratio < 10) for clock, ratio in ratios.items())


def _linear_range(clock: str, low: int, high: int) -> Callable[[ReadingTimes], StatementVerdict]:
    def check(sent: ReadingTimes) -> StatementVerdict:
        sizes = [size for size in sent.timings if low <= size <= high]
        times = [sent.at(clock, size).round_trip_us for size in sizes]
        fit = correlation(sizes, times) ** 2 if len(set(times)) > 1 else 0.0
        rises = times[-1] > times[0]
        shown = ", ".join(f"{size}: {us:.0f} us" for size, us in zip(sizes, times, strict=True))
        return StatementVerdict(f"R² = {fit:.2f} ({shown})", rises and fit >= 0.95)

    return check


def _grows_faster_than_linear(sent: ReadingTimes) -> StatementVerdict:
    parts = []
    for clock in ("vector", "ordering"):
        small, middle, large = (sent.at(clock, size).round_trip_us for size in (2, 10, sent.largest))
        first, last = (middle - small) / 8, (large - middle) / (sent.largest - 10)
        parts.append((f"{clock}: {first:.2f} us an entry from 2 to 10, {last:.2f} beyond", last > first > 0))
    return all_of(parts)


def _cpu_is_half(sent: ReadingTimes) -> StatementVerdict:
    parts = []
    for clock in ("vector", "ordering"):
        timed = sent.at(clock, sent.largest)
        share = timed.client_cpu_us / timed.round_trip_us
        parts.append((f"{clock}: {share:.2f} at {sent.largest} entries", 0.4 <= share <= 0.6))
    return all_of(parts)


def _twice_the_size(sent: ReadingTimes) -> StatementVerdict:
    sizes = [sent.at(clock, sent.largest).request_stamp_bytes for clock in ("vector", "ordering")]
    ratio = sizes[1] / sizes[0]
    return StatementVerdict(
        f"{sizes[1]} / {sizes[0]} bytes = {ratio:.2f} at {sent.largest} entries", 1.75 <= ratio <= 2.25
    )


def _state_table_1(clock: str, name: str, column: int) -> Statement[ReadingTimes]:
    plain, stamped = TABLE_1["plain"][column], TABLE_1[clock][column]
    unit = ("round trip", "client CPU")[column]
    return Statement(
        "4.4, Table 1",
        f"{name}: {unit} {stamped} ms, plain {plain} ms",
        f"ratio to the plain call at 2 entries at most {stamped / plain:.3f}",
        ("table1",),
        _at_most_stated(clock, column),
        limit="ours",
    )


STATED: tuple[Statement[ReadingTimes], ...] = (
    _state_table_1("vector", "time-stamps", 0),
    _state_table_1("ordering", "ordering", 0),
    _state_table_1("vector", "time-stamps", 1),
    _state_table_1("ordering", "ordering", 1),
    Statement(
        "4.4 (i)",
        "for small stamps the overhead is significant, but not an order of magnitude",
        "round trip at 2 entries more than 1 and less than 10 times the plain call",
        ("table1",),
        _small_overhead,
        limit="ours",
    ),
    Statement(
        "4.4 (ii), Fig. 6",
        "the round trip grows in an approximately exponential manner",
        "microseconds an entry: more beyond 10 entries than from 2 to 10",
        ("fig6",),
        _grows_faster_than_linear,
        limit="ours",
    ),
    Statement(
        "4.4 (ii), Fig. 6",
        "time-stamps: almost linear from 10 to 100 entries",
        "rises, with R² of a straight line at least 0.95",
        ("fig6",),
        _linear_range("vector", 10, 100),
        limit="ours",
    ),
    Statement(
        "4.4 (ii), Fig. 6",
        "ordering: almost linear from 5 to 50 entries",
        "rises, with R² of a straight line at least 0.95",
        ("fig6",),
        _linear_range("ordering", 5, 50),
        limit="ours",
    ),
    Statement(
        "4.4 (iii), Fig. 7",
        "client CPU is about half the round trip for larger stamps",
        "0.4 to 0.6 of it at the largest size",
        ("fig7",),
        _cpu_is_half,
        limit="ours",
    ),
    Statement(
        "4.4",
        "ordering stamps are twice the size of time-stamps",
        "1.75 to 2.25 times the bytes at the largest size",
        ("table1",),
        _twice_the_size,
        limit="ours",
    ),
)


def make_chapter(timings: Timings, only: set[str]) -> Chapter:
    """Make the chapter with Table 1 and the two figures, as far as `only` names them."""
    artefacts = {
        "table1": _make_table(timings),
        "fig6": _make_figure(
            timings, "rpc_fig6_round_trip", "Round trip", lambda timed: (timed.round_trip_ratio, timed.round_trip_us)
        ),
        "fig7": _make_figure(
            timings, "rpc_fig7_client_cpu", "Client CPU", lambda timed: (timed.cpu_ratio, timed.client_cpu_us)
        ),
    }
    findings = [
        finding for reading in READINGS for finding in judge(STATED, reading, ReadingTimes(timings, reading), only)
    ]
    notes = (
        'A gRPC echo on loopback. "whole" sends every stamp in full, which is Berry\'s experiment; "channel" sends what '
        "changed. Ratios are medians of the rounds' ratios to the plain call. Timings differ from run to run and from "
        "machine to machine. Our copy of the paper does not show Berry's curves, so growth is compared in words only.",
    )
    chosen = tuple(artefact for name, artefact in artefacts.items() if name in only)
    return Chapter(
        "Application-level causal time-stamps and ordering (Berry)",
        notes,
        chosen,
        tuple(findings),
        advice=_advise(timings),
    )


def _advise(timings: Timings) -> tuple[str, ...]:
    """Compare the two ways to send vector stamps, at the smallest and the largest size."""
    ratios = {
        size: {reading: ReadingTimes(timings, reading).at("vector", size).round_trip_ratio for reading in READINGS}
        for size in (min(timings), max(timings))
    }
    quicker = min(READINGS, key=lambda reading: ratios[max(timings)][reading])
    shown = "; ".join(
        f"{size} entries: " + ", ".join(f"{reading} {ratio:.2f}" for reading, ratio in by_reading.items())
        for size, by_reading in ratios.items()
    )
    return (f"{quicker} stamps, by round trips as multiples of the plain call. {shown}",)


def _make_table(timings: Timings) -> Artefact:
    rows = [
        (
            kind,
            timed.round_trip_us,
            timed.round_trip_ratio,
            *timed.round_trip_quartiles,
            timed.client_cpu_us,
            timed.cpu_ratio,
            *timed.cpu_quartiles,
            timed.request_stamp_bytes,
        )
        for kind, timed in timings[2].items()
    ]
    columns = (
        *("call", "round_trip_us", "round_trip_ratio", "round_trip_ratio_q1", "round_trip_ratio_q3"),
        *("client_cpu_us", "cpu_ratio", "cpu_ratio_q1", "cpu_ratio_q3", "request_stamp_bytes"),
    )
    return Artefact("rpc_table1", columns, rows)


def _make_figure(timings: Timings, stem: str, title: str, read: Callable[[Timed], tuple[float, float]]) -> Artefact:
    kinds = [kind for kind in next(iter(timings.values())) if kind != "plain"]
    rows = [(size, kind, *read(timed)) for size, by_kind in timings.items() for kind, timed in by_kind.items()]

    def draw(picture: Figure) -> None:
        axes = picture.subplots()
        for kind in kinds:
            axes.plot(list(timings), [read(timings[size][kind])[0] for size in timings], marker="o", label=kind)
        axes.set(xscale="log", xlabel="entries of the stamp", ylabel="times the plain call", title=title)
        axes.axhline(1, color="grey", linewidth=0.8)
        axes.legend()

    return Artefact(stem, ("entries", "call", "ratio", "microseconds"), rows, draw)
