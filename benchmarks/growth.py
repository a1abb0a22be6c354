"""How the time to make a history, and to ask it why, grows with processes and events; and the figure of it."""

from __future__ import annotations

import math
import statistics
import time
from pathlib import Path

from benchmarks.asking import LAST, ask, drawn_events, opened
from benchmarks.histories import history, is_trial, largest_events, size
from benchmarks.pipeline import PROCESSES as WITH_ALL_SIZES
from benchmarks.report import PAGE, Goal, Section

PROCESSES = (2, 10, 100, 1000)
QUESTIONS = 60
FIGURE = PAGE.parent / "figures" / "growth.svg"


def section() -> Section:
    observed: dict[int, dict[int, float]] = {processes: {} for processes in PROCESSES}
    asked: dict[int, dict[int, float]] = {processes: {} for processes in PROCESSES}
    for processes in PROCESSES:
        for events in sizes(processes):
            found = history(processes, events)
            observed[processes][events] = found.seconds
            asked[processes][events] = seconds_to_ask(found.path)
    if not is_trial():
        draw(observed, asked, FIGURE)
    most = largest_events()
    slope = exponent(observed[WITH_ALL_SIZES], most // 100, most)
    slower = asked[WITH_ALL_SIZES][most] / asked[WITH_ALL_SIZES][most // 100]
    return Section(
        "Growth",
        "Seconds of `observe` (one run of each, in a Spark session that is already warm) and milliseconds of asking for the last "
        f"{LAST} causes of an event (median of {QUESTIONS} random events, each asked of an open history for the first time), by the "
        f"number of processes and of events. {size(most)} events with {WITH_ALL_SIZES} processes only, for the sake of time.",
        ("processes", "events", "observe, s", "million events/s", "why, ms"),
        [
            (processes, size(events), seconds, events / seconds / 1e6, 1e3 * asked[processes][events])
            for processes, by_size in observed.items()
            for events, seconds in by_size.items()
        ],
        [
            Goal(
                f"at {WITH_ALL_SIZES} processes no worse than linear from {size(most // 100)} to {size(most)} events",
                f"time grows as events^{slope:.2f}",
                slope <= 1.05,
            ),
            Goal(
                f"100x the events make a question at most 10x slower, up to {size(most)}",
                f"{slower:.1f}x",
                slower <= 10,
            ),
        ],
        "" if is_trial() else "![Time of observe and of why, by events and processes](figures/growth.svg)",
    )


def sizes(processes: int) -> list[int]:
    """Powers of ten up to the largest, which only one number of processes has."""
    most = round(math.log10(largest_events()))
    return [10**digits for digits in range(min(5, most - 2), most + (processes == WITH_ALL_SIZES))]


def seconds_to_ask(path: Path) -> float:
    """The median over random events of one open history."""
    opened_history = opened(path)
    taken = []
    for event in drawn_events(opened_history, QUESTIONS):
        start = time.perf_counter()
        ask(opened_history, event)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def exponent(by_size: dict[int, float], few: int, many: int) -> float:
    """The slope of the line between two sizes, both axes being logarithmic."""
    return math.log(by_size[many] / by_size[few]) / math.log(many / few)


def draw(observed: dict[int, dict[int, float]], asked: dict[int, dict[int, float]], path: Path) -> None:
    """Both quantities over the number of events, one line a number of processes."""
    import matplotlib
    from matplotlib.figure import Figure

    # A fixed salt names the SVG's parts alike in every run; text stays text, so that it can be searched.
    with matplotlib.rc_context({"svg.hashsalt": "ledto", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, values, scale, label in (
            (panels[0], observed, 1.0, "observe, seconds"),
            (panels[1], asked, 1e3, f"why, last {LAST} causes, milliseconds"),
        ):
            for processes, by_size in values.items():
                axes.plot(
                    list(by_size),
                    [scale * value for value in by_size.values()],
                    marker="o",
                    ms=3,
                    label=f"{processes:,}",
                )
            axes.set(xscale="log", yscale="log", xlabel="events", ylabel=label)
            axes.grid(alpha=0.3)
        panels[0].legend(title="processes")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
