"""What a history says of itself: the answers of `check`, `processes` and `quarantine`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ledto.history import layout
from ledto.history.run import Run
from ledto.questions.answer import Answer, count

if TYPE_CHECKING:
    from ledto.questions.provable import Provable


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the history."""

    code: int
    """Its number, as in `Numbered.process`."""
    computation: str
    process: str
    clock_name: str | None
    """The clock that its times were read from, if that is not its own."""
    events: int
    first_time: int | None
    last_time: int | None
    dense_seq: bool
    """Whether no number is missing between its first event and its last."""
    messages: int = 0
    """How many of its events send or receive a message."""
    first_hole: int | None = None
    """The number of its first event right before which a report is missing."""
    first_tainted: int | None = None
    """The number of its first event with a report missing in its past: from there on nothing is provably concurrent."""
    first_gone: int | None = None
    """The number of its first event that may come after a quarantined or late report."""
    gone_why: str | None = None
    """Why that report is quarantined, or ``late``."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return asdict(self)


class ProcessList(Answer, tuple[Process, ...]):
    """The answer of `History.processes`: all processes, by code. A tuple."""

    __slots__ = ()

    def to_json(self) -> list[dict[str, Any]]:
        """List the JSON objects that `--json` prints."""
        return [process.to_json() for process in self]

    def to_arrow(self) -> pa.Table:
        """Make an Arrow table with a row for each process: the fields of `Process`."""
        return pa.Table.from_pylist(self.to_json(), layout.PROCESSES)

    def summary(self) -> str:
        events = sum(process.events for process in self)
        return f"{count(len(self), 'process')}, {count(events, 'event')}"


@dataclass(frozen=True, slots=True)
class QuarantinedReport:
    """A report that is counted and not used."""

    outcome: str
    """``quarantined`` or ``duplicate``."""
    reason: str | None
    """A code and a detail, such as ``not-json: ...``."""
    computation: str | None
    process: str | None
    file: str | None
    place: int | None
    text: str | None

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return asdict(self)


class QuarantinedReports(Answer):
    """The answer of `History.quarantine`. Iterating reads the reports a few thousand at a time, from the first each time."""

    __slots__ = ("_outcome", "_run")

    def __init__(self, run: Run, outcome: str | None) -> None:
        self._run = run
        self._outcome = outcome

    def __iter__(self) -> Iterator[QuarantinedReport]:
        for name in self._run.manifest.quarantine_files:
            for batch in self._run.file_batches(name):
                for row in batch.to_pylist():
                    if self._outcome is None or row["outcome"] == self._outcome:
                        yield QuarantinedReport(**row)

    def to_json(self) -> list[dict[str, Any]]:
        """List the JSON objects that `--json` prints."""
        return [report.to_json() for report in self]

    def to_arrow(self) -> pa.Table:
        """Make an Arrow table with a row for each report: the fields of `QuarantinedReport`."""
        return pa.Table.from_pylist(self.to_json(), layout.QUARANTINE)

    def summary(self) -> str:
        ledger = self._run.manifest.ledger
        wanted = {"quarantined": ledger.quarantined, "duplicate": ledger.duplicate}
        listed = wanted if self._outcome is None else {self._outcome: wanted.get(self._outcome, 0)}
        return ", ".join(f"{number:,} {outcome}" for outcome, number in listed.items())

    def shown_rows(self, most: int) -> tuple[pa.Table, int | None]:
        first = [report.to_json() for report in islice(self, most + 1)]
        table = pa.Table.from_pylist(first[:most], layout.QUARANTINE)
        return table, len(first) if len(first) <= most else None


@dataclass(frozen=True, slots=True)
class Check:
    """The answer of `History.check`: what was counted when the history was made."""

    events: int
    ledger: dict[str, Any]
    """The number of reports, and what was done with them."""
    wall_clock: dict[str, Any]
    """How the order by wall time contradicts causal order."""
    policies: dict[str, Any]
    """The same, and the delays, for each delivery policy."""
    channels: dict[str, int]
    """How sends and receives without keys were matched along channels."""
    provable: Provable
    """For how many events it can be proved what cannot have led to them."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        values = {name: getattr(self, name) for name in Check.__slots__}
        return {**values, "provable": self.provable.to_json()}
