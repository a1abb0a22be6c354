"""Collect the reports that a run does not use, each with its reason: quarantined ones and duplicates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.events.schema import COLUMNS
from ledto.history import layout

DUPLICATE, QUARANTINED = "duplicate", "quarantined"
TEXT_LIMIT = 2_000
"""Characters of a report that are kept."""
PLACED = pa.schema([*layout.QUARANTINE, pa.field("seq", pa.int64()), pa.field("time", pa.int64())])
"""The columns of `layout.QUARANTINE`, with the number and time that say where the report belongs in its process."""


@dataclass(slots=True)
class Quarantined:
    """Rows of a table of reports that are not used, each with an outcome and a reason ``code: detail``."""

    rows: list[int] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def duplicate(self, rows: NDArray[np.int64]) -> None:
        """Add rows that say the same as another report of their event."""
        self._add(rows, DUPLICATE, ["duplicate: another report of this event says the same"] * len(rows))

    def quarantine(self, rows: NDArray[np.int64], code: str, details: Sequence[str] | str) -> None:
        """Add rows that cannot be used, for a reason of this code; `details` are for each row, or for all."""
        if isinstance(details, str):
            details = [details] * len(rows)
        self._add(rows, QUARANTINED, [f"{code}: {detail}" for detail in details])

    def _add(self, rows: NDArray[np.int64], outcome: str, reasons: Sequence[str]) -> None:
        self.rows.extend(rows.tolist())
        self.outcomes.extend([outcome] * len(rows))
        self.reasons.extend(reasons)

    def table(self, reports: pa.Table) -> pa.Table:
        """Make a table of `PLACED` from the rows. A row without its source's text gets itself as JSON for a text."""
        # `take` copies all chunks of every column, even to take no row.
        chosen = reports.take(pa.array(self.rows, pa.int64())) if self.rows else reports.slice(0, 0)
        records = chosen.to_pylist()
        texts = [record.get("text") or _as_json(record) for record in records]
        columns = {"outcome": self.outcomes, "reason": self.reasons, "text": texts}
        for name in ("computation", "process", "file", "place", "seq", "time"):
            columns[name] = [record.get(name) for record in records]
        return pa.table(columns, PLACED)


def count_codes(rows: pa.Table) -> Counter[str]:
    """Count the quarantined rows by the code of their reason."""
    return Counter(
        reason.partition(":")[0]
        for outcome, reason in zip(rows["outcome"].to_pylist(), rows["reason"].to_pylist(), strict=True)
        if outcome == QUARANTINED
    )


def _as_json(record: dict[str, object]) -> str:
    names = [*(name for name in COLUMNS if name in record), *sorted(record.keys() - {*COLUMNS, "own"})]
    values = {name: record[name] for name in names if record[name] is not None}
    return json.dumps(values, ensure_ascii=False, default=str)[:TEXT_LIMIT]
