"""Count the provable events of a history: those with no report known to be missing in what may have led to them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledto.causality.taint import NEVER
from ledto.events.keys import SPAN
from ledto.history import layout
from ledto.history.run import Run
from ledto.questions.event import events_at
from ledto.questions.locate import position_of_index
from ledto.questions.missing import first_holes, first_tainted

MOST_NAMED = 3
"""How many silent processes are named."""


@dataclass(frozen=True, slots=True)
class Provable:
    """How much of a history is provable."""

    events: int
    processes: int
    provable: int
    """How many events have no report known to be missing in their past."""
    silent_processes: int
    """How many processes report no messages, while others do: what led to their events is unknown."""
    silent_events: int
    """How many events those have; none is provable."""
    silent: tuple[str, ...]
    """Some of their names."""
    numbered: bool
    """Whether sources number all events. If not, a lost report may go unnoticed."""
    first_missing: str | None
    """The id of an event right before which a report is missing: the one with the smallest number in its process."""
    connected: bool = True
    """False if a computation has several processes, and nothing leads from one to another."""
    spans: bool = False
    """If not connected: whether there are spans, whose parents would connect processes."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return {**asdict(self), "silent": list(self.silent)}


def provable(run: Run) -> Provable:
    """Count from the table of processes; read skeletons only until something leads from one process to another."""
    table = run.processes.table
    events = table["events"].to_numpy()
    holes, tainted = first_holes(run), first_tainted(run)
    silent = (pc.equal(table["messages"], 0).to_numpy()) & (holes == 1)
    first = np.where(silent, NEVER, holes)
    code = int(first.argmin()) if len(first) and first.min() != NEVER else None
    after_hole = () if code is None else events_at(run, [position_of_index(run, code, int(first[code]))])
    connected = not _has_companions(run) or any(_leads_across(run, number) for number in range(len(run.segments)))
    return Provable(
        events=int(events.sum()),
        processes=len(events),
        provable=int(np.minimum(events, tainted - 1).sum()),
        silent_processes=int(silent.sum()),
        silent_events=int(events[silent].sum()),
        silent=tuple(run.processes.name(code) for code in np.flatnonzero(silent)[:MOST_NAMED].tolist()),
        numbered=run.has_numbers,
        first_missing=after_hole[0].id if after_hole else None,
        connected=connected,
        spans=not connected and any(_has_spans(run, number) for number in range(len(run.segments))),
    )


def _has_companions(run: Run) -> bool:
    """Tell whether some computation has several processes."""
    return len(run.processes) > len(np.unique(run.processes.computation_number))


def _leads_across(run: Run, number: int) -> bool:
    """Tell whether a step within a segment, or into it, leads from one process to another."""
    into = run.messages_into(number)
    if len(into.row) and (run.process_column(number)[into.row] != into.process).any():
        return True
    process = run.process_column(number)
    for group in range(-(-len(process) // layout.SKELETON_ROWS)):
        skeleton = run.skeleton_group(number, group)
        effect = np.repeat(np.arange(len(skeleton)), np.diff(skeleton.offsets)) + group * layout.SKELETON_ROWS
        if (process[effect] != process[effect - skeleton.back]).any():
            return True
    return False


def _has_spans(run: Run, number: int) -> bool:
    """Tell whether the first row group of a segment has spans: events that send the start of their own line.

    Other keys may have the prefix as well: those of messages that a mapping calls repeated.
    """
    rows = run.events(number, ["sends", "line"], 0, min(layout.EVENT_ROWS, int(run.segments.rows[number])))
    sends, line = rows["sends"].cast(pa.string()), rows["line"].cast(pa.string())
    own = pc.binary_join_element_wise(pa.scalar(SPAN), line, "")
    return bool(pc.any(pc.equal(sends, own)).as_py())
