"""Simulations that are refused before they start, because they would take hours or all memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.simulation import Model

MOST_TICKS = 10**10
"""Clock increments of a run; minutes of work."""
MOST_BYTES = 4 << 30
"""Of a run's arrays."""


def check_size(model: Model) -> None:
    """Raise `ValueError`, which says what to change, when a run is expected to exceed a limit."""
    ticks = expected_ticks(model)
    if ticks > MOST_TICKS:
        raise ValueError(
            f"a run would take about {ticks:.1g} ticks of its processes, and {MOST_TICKS:.0g} is the limit: raise --rate, "
            "or lower --messages or --loss"
        )
    needed = expected_bytes(model)
    if needed > MOST_BYTES:
        raise ValueError(
            f"a run would take about {needed / (1 << 30):,.0f} GiB of memory, and {MOST_BYTES >> 30} GiB is the limit: "
            "lower --processes, --messages, --eps or --delta"
        )


def expected_ticks(model: Model) -> float:
    """Increments of the processes' clocks until enough reports have arrived, if none but those of `loss` is lost."""
    return model.messages / (model.rate * (1 - model.loss))


def expected_bytes(model: Model) -> int:
    """Of the largest arrays: a stamp and a vector clock for each report, process and message on its way; due times."""
    entry, due = 4, 8
    sent = int(model.rate * model.processes * model.longest_delay)
    on_their_way = min(sent, model.messages)
    stamps = model.messages + model.processes + on_their_way
    timelines = model.processes if model.arrives_by == "sender" else 1
    return entry * stamps * (model.compared + model.processes) + due * (timelines + 1) * model.longest_delay
