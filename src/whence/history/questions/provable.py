"""How much of a history is provable: for how many events no report is known to be missing in what may have led to them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from whence.causality.taint import NEVER
from whence.history.questions.doubts import first_holes, first_tainted
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
    first_missing: tuple[str, int] | None
    """A process, and the number of its first event before which a report is missing: the smallest such number."""

    @property
    def connected(self) -> bool:
        """Whether any message leads from one process to another, where there are several."""
        return not self.processes or self.silent_processes < self.processes

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        first = self.first_missing
        return {
            **asdict(self),
            "silent": list(self.silent),
            "first_missing": None if first is None else {"process": first[0], "event": first[1]},
            "connected": self.connected,
        }


def provable(run: Run) -> Provable:
    """Count, from what the table of processes says."""
    table = run.processes.table
    events = table["events"].to_numpy()
    holes, tainted = first_holes(run), first_tainted(run)
    silent = (pc.equal(table["messages"], 0).to_numpy()) & (holes == 1)
    first = np.where(silent, NEVER, holes)
    at = int(first.argmin()) if len(first) and first.min() != NEVER else None
    return Provable(
        events=int(events.sum()),
        processes=len(events),
        provable=int(np.minimum(events, tainted - 1).sum()),
        silent_processes=int(silent.sum()),
        silent_events=int(events[silent].sum()),
        silent=tuple(run.processes.name(code) for code in np.flatnonzero(silent)[:MOST_NAMED].tolist()),
        numbered=run.has_numbers,
        first_missing=None if at is None else (run.processes.name(at), int(first[at])),
    )
