"""How much of a history is provable: for how many events no report is known to be missing in what may have led to them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from whence.causality.taint import NEVER
from whence.history.questions.doubts import first_holes, first_tainted
from whence.history.questions.event import events_at
from whence.history.questions.locating import position_of_index
from whence.history.reading import Run

MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Provable:
    """How much of a history is provable."""

    events: int
    processes: int
    provable: int
    """Events of which it is known what cannot have led to them: no report is known to be missing in their past."""
    silent_processes: int
    """Processes that tell of no message, beside others: nothing is known of what reached them."""
    silent_events: int
    """Their events, none of which is provable."""
    silent: tuple[str, ...]
    """Some of their names."""
    numbered: bool
    """Whether sources number all events. Where they do not, nobody notices that a report was lost."""
    first_missing: str | None
    """The id of an event before which a report is missing: the one with the smallest number in its process."""

    @property
    def connected(self) -> bool:
        """Whether any message leads from one process to another, where there are several."""
        return not self.processes or self.silent_processes < self.processes

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {**asdict(self), "silent": list(self.silent), "connected": self.connected}


def provable(run: Run) -> Provable:
    """Count, from what the table of processes says."""
    table = run.processes.table
    events = table["events"].to_numpy()
    holes, tainted = first_holes(run), first_tainted(run)
    silent = (pc.equal(table["messages"], 0).to_numpy()) & (holes == 1)
    first = np.where(silent, NEVER, holes)
    code = int(first.argmin()) if len(first) and first.min() != NEVER else None
    shows = () if code is None else events_at(run, [position_of_index(run, code, int(first[code]))])
    return Provable(
        events=int(events.sum()),
        processes=len(events),
        provable=int(np.minimum(events, tainted - 1).sum()),
        silent_processes=int(silent.sum()),
        silent_events=int(events[silent].sum()),
        silent=tuple(run.processes.name(code) for code in np.flatnonzero(silent)[:MOST_NAMED].tolist()),
        numbered=run.has_numbers,
        first_missing=shows[0].id if shows else None,
    )
