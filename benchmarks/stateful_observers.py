"""The observer as Spark's own operator for state would have it: reports wait in the state store until they are due.

It does less than `ledto.live`: rows come decoded and with the time at which they are due, nothing is matched,
ordered causally, deduplicated or checked, no history is written, and time stands still without reports. What it gives are
deliveries in order.
"""

# ruff: noqa: N802, N803  (Spark gives the methods of a processor, and their arguments, their names)

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

COLUMNS = {
    "computation": "string",
    "process": "string",
    "seq": "long",
    "time": "long",
    "arrival": "long",
    "due": "long",
    "kind": "string",
    "sends": "string",
    "receives": "string",
    "name": "string",
    "attributes": "string",
}
REPORT = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
DELIVERY = f"{REPORT}, at long"
NAMES = list(COLUMNS)


def split(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What is due at the last arrival, in order of delivery, and the rest."""
    is_due = rows["due"] <= rows["arrival"].max()
    due = rows[is_due]
    due = due.assign(at=due[["arrival", "due"]].max(axis=1))
    return due.sort_values(["at", "due", "process", "seq"]), rows[~is_due]


class InList(StatefulProcessor):
    """Every report is an element of a list."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it once a task."""
        self._waiting = handle.getListState("waiting", REPORT)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """One micro-batch of one computation."""
        held = list(self._waiting.get())
        due, rest = split(pd.concat([*([pd.DataFrame(held, columns=NAMES)] if held else []), *rows]))
        if len(rest):
            self._waiting.put(
                list(rest[NAMES].astype(object).where(rest[NAMES].notna(), None).itertuples(index=False, name=None))
            )
        else:
            self._waiting.clear()
        yield due

    def close(self) -> None:
        """Nothing is open."""


class ThroughList(InList):
    """Every report passes through the list, as an observer without micro-batches has it: put on arrival, taken when due."""

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """One micro-batch of one computation."""
        for some in rows:
            plain = some[NAMES].astype(object)
            self._waiting.appendList(list(plain.where(plain.notna(), None).itertuples(index=False, name=None)))
        yield from super().handleInputRows(key, iter(()), timerValues)


class InBlob(StatefulProcessor):
    """All that waits is one value, pickled."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it once a task."""
        self._waiting = handle.getValueState("waiting", "rows binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """One micro-batch of one computation."""
        kept = self._waiting.get()
        due, rest = split(pd.concat([*([pickle.loads(kept[0])] if kept is not None else []), *rows]))
        self._waiting.update((pickle.dumps(rest, protocol=5),))
        yield due

    def close(self) -> None:
        """Nothing is open."""
