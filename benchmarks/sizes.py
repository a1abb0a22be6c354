"""Bytes of a stamp on long fork/join histories: the paper's form, ours, and Interval Tree Clocks."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

from benchmarks.report import Goal, Section
from ledto.clocks import Instance, IntervalTreeClock, PaperInstance
from ledto.simulation import fork_join
from ledto.simulation.fork_join import EVENT, FORK

JOINS, LONG_JOINS, SEEDS = 1_000, 4_000, (1, 2, 3)
PAPER_JOINS = 300
"""The paper's form takes minutes beyond that."""


def stamps(root: Callable[[], Any], live: int, joins: int, seed: int) -> list[bytes]:
    """The stamps of all internal events of one history, as bytes."""
    alive, found, joined = {0: root()}, [], 0
    history = fork_join(16 * joins, live, seed)
    for kind, takes, takes_too, gives, gives_too in zip(*(column.tolist() for column in history), strict=True):
        if kind == EVENT:
            found.append(alive[takes].event().to_bytes())
        elif kind == FORK:
            one = alive.pop(takes)
            alive[gives], alive[gives_too] = one.duplicate() if hasattr(one, "duplicate") else one.fork()
        else:
            one, other = alive.pop(takes), alive.pop(takes_too)
            alive[gives] = one.combine(other) if hasattr(one, "combine") else one.join(other)
            joined += 1
            if joined == joins:
                return found
    raise AssertionError(f"only {joined} joins in the history")


def mean_bytes(root: Callable[[], Any], live: int, joins: int) -> float:
    return mean(len(stamp) for seed in SEEDS for stamp in stamps(root, live, joins, seed))


def section() -> Section:
    rows, worst = [], {JOINS: 0.0, LONG_JOINS: 0.0}
    for joins in (JOINS, LONG_JOINS):
        for live in (4, 8, 16):
            ours, itc = mean_bytes(Instance.root, live, joins), mean_bytes(IntervalTreeClock.seed, live, joins)
            paper = len(stamps(PaperInstance.root, live, PAPER_JOINS, 1)[-1]) if joins == JOINS else "-"
            rows.append((joins, live, itc, ours, ours / itc, paper))
            worst[joins] = max(worst[joins], ours / itc)
    return Section(
        "Stamps of instances that split and merge",
        "Mean bytes of all events' stamps (random histories of two events to a fork and a join, seeds 1 to 3, "
        "`ledto.simulation.fork_join`), by the number of joins and of instances alive at most: Interval Tree Clocks, "
        f"`Instance`, and the ratio; and one stamp in the paper's form (I, N, Eq) after {PAPER_JOINS} joins. All with their "
        "header byte; an `Instance` stamp also names its event and lists its past.",
        ("joins", "alive", "interval tree", "Instance", "ratio", "paper's form, last"),
        rows,
        [
            Goal(f"at most 3x Interval Tree Clocks at {joins:,} joins", f"at most {ratio:.2f}x", ratio <= 3)
            for joins, ratio in worst.items()
        ],
        "An exact list of the past cannot forget which names of a small share were used while others wait for theirs, so the "
        "stamp grows slowly as long as many instances stay alive and never meet.",
    )
