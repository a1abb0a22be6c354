"""How much a live history takes before it refuses more: what one bad sender may cost everybody is bounded.

What is beyond a limit is set aside, and the reason says which limit it was. Limits are no part of the terms: a stream may go
on with others.
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
    """Of a computation: what is known of each by each is kept, so memory and time grow with their square."""
    computations: int = 500
    """Each costs a few files with every commit that changes it."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) < 1:
                raise ValueError(f"a live history has 1 or more {each.name}, not {getattr(self, each.name)}")

    def refuse_computations(self, rows: pa.Table, closed: ClosedPart, tail: Tail) -> Quarantined:
        """Rows of computations that would be too many."""
        known = {*closed.chains, *tail.plain}
        return _beyond(rows, "computation", known, self.computations, "computations")

    def refuse_processes(self, rows: pa.Table, known: Collection[str]) -> Quarantined:
        """Rows, all of one computation that has these processes, of processes that would be too many."""
        return _beyond(rows, "process", known, self.processes, "processes")


def _beyond(rows: pa.Table, column: str, known: Collection[str], limit: int, what: str) -> Quarantined:
    """Rows with a name that is not known, once there are as many as may be; names count in the order in which they come."""
    aside = Quarantined()
    new = [name for name in rows[column].unique().to_pylist() if name not in known]
    room = max(0, limit - len(known))
    if len(new) <= room:
        return aside
    refused = pa.array(new[room:], pa.string())
    chosen: Flags = pc.is_in(rows[column], value_set=refused).to_numpy().astype(np.bool_)
    where = "its computation" if what == "processes" else "this live history"
    aside.quarantine(
        np.flatnonzero(chosen),
        f"too-many-{what}",
        f"{where} has {limit} {what}, as many as it may: raise --most-{what}, or follow into another folder",
    )
    return aside
