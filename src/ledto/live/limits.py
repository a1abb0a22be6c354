"""Bound what one bad sender can cost everybody: refuse processes and computations beyond a limit.

Refused reports are quarantined; the reason names the limit. Limits are not part of the terms: a stream may go on with
others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.history.quarantine import Quarantined
from ledto.live.state import ClosedPart, Tail

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LiveLimits:
    """The limits of a live history."""

    processes: int = 4_000
    """Most processes of a computation. Memory and time grow with the square: the history keeps what each process knows
    of each other."""
    computations: int = 500
    """Most computations. Each costs a few files with every commit that changes it."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) < 1:
                raise ValueError(f"a live history has 1 or more {limit.name}, not {getattr(self, limit.name)}")

    def refuse_computations(self, rows: pa.Table, closed: ClosedPart, tail: Tail) -> Quarantined:
        """Quarantine rows of new computations beyond the limit."""
        known = {*closed.chains, *tail.by_computation}
        return _refuse_new(rows, "computation", known, self.computations, "computations")

    def refuse_processes(self, rows: pa.Table, known: Collection[str]) -> Quarantined:
        """Quarantine rows of new processes beyond the limit.

        All rows are of one computation, which has the `known` processes.
        """
        return _refuse_new(rows, "process", known, self.processes, "processes")


def _refuse_new(rows: pa.Table, column: str, known: Collection[str], limit: int, what: str) -> Quarantined:
    """Quarantine rows with new names beyond the limit. Names count in the order in which they first appear."""
    quarantined = Quarantined()
    new = [name for name in rows[column].unique().to_pylist() if name not in known]
    room = max(0, limit - len(known))
    if len(new) <= room:
        return quarantined
    refused = pa.array(new[room:], pa.string())
    chosen: Flags = pc.is_in(rows[column], value_set=refused).to_numpy().astype(np.bool_)
    where = "its computation" if what == "processes" else "this live history"
    quarantined.quarantine(
        np.flatnonzero(chosen),
        f"too-many-{what}",
        f"{where} already has {limit} {what}, the most allowed: raise --most-{what}, or follow into another folder",
    )
    return quarantined
