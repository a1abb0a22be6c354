"""Simulate a computation: take parameters and a seed, give reports and the truth about them.

    >>> reports, truth = simulate(closest(10, eps=10, delta=10, rate=0.1, messages=100), seed=1)
    >>> len(reports.seq), truth.vector.shape
    (100, (100, 10))

gives `ledto.events.columns.ReportArrays` and `TrueOrder`. The same seed gives the same bytes on every machine; runs of
different seeds are independent. Besides the observer paper's model there are its extensions (`Bursts`, `Relays`,
`replay` of a recorded trace), HCG's structured group (`simulate_group`) and histories that fork and join (`fork_join`).
"""

from ledto.simulation.delay import Delay
from ledto.simulation.fork_join import ForkJoin, fork_join
from ledto.simulation.group import GroupMessages, OrderedShares, SimulatedGroup, ordered_ratios, simulate_group
from ledto.simulation.model import Bursts, Model, Relays, closest, literal
from ledto.simulation.replay import RecordedTrace, TraceError, drawn_arrivals, replay
from ledto.simulation.simulate import simulate

__all__ = [
    "Model",
    "Delay",
    "Bursts",
    "Relays",
    "closest",
    "literal",
    "simulate",
    "RecordedTrace",
    "TraceError",
    "replay",
    "drawn_arrivals",
    "SimulatedGroup",
    "GroupMessages",
    "OrderedShares",
    "simulate_group",
    "ordered_ratios",
    "ForkJoin",
    "fork_join",
]
