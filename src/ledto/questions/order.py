"""List the whole history: in history order, or in the order in which a policy delivers it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledto.history import layout
from ledto.history.errors import UnknownPolicy
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.answer import FOUND, Answer, ShownEvents, count, with_datetime
from ledto.questions.event import Event, event_columns, events_from

DELIVERY_KEY = ("at", "lead", "tie")
"""Columns that order deliveries; those of equal keys are ordered by position."""
NEVER = int(np.iinfo(np.int64).max)
"""Sorts events without a time of delivery last: a policy cannot place them."""


class Order(Answer):
    """The answer of `History.order`: all events. Iterating reads them a few thousand at a time, from the first each time."""

    __slots__ = ("_policy", "_run")

    def __init__(self, run: Run, *, policy: str | None) -> None:
        if policy is not None:
            delivery_files(run, policy)  # Raises `UnknownPolicy`.
        self._run = run
        self._policy = policy

    def __len__(self) -> int:
        return self._run.events_total

    def __iter__(self) -> Iterator[Event]:
        return order_events(self._run, policy=self._policy)

    def to_json(self) -> list[dict[str, Any]]:
        """List the JSON objects that `--format jsonl` prints."""
        return list(order_documents(self._run, policy=self._policy))

    def to_arrow(self) -> pa.Table:
        """Make an Arrow table of all events, in memory: the stored columns, ``position`` and ``datetime``.

        Under a policy it also has ``at``, ``waited`` and ``late``. `History.order_tables` gives the same in pieces.
        """
        return self._table(order_tables(self._run, policy=self._policy, columns=self._run.event_schema().names))

    def _table(self, tables: Iterator[pa.Table]) -> pa.Table:
        parts = [plain_table(table) for table in tables]
        if not parts:
            parts = [_with_position(self._run.event_schema().empty_table(), np.empty(0, np.int64))]
        return with_datetime(pa.concat_tables(parts, promote_options="permissive"), self._run.manifest.unit)

    def summary(self) -> str:
        by = "causes before effects" if self._policy is None else f"as {self._policy} delivers them"
        return f"{count(len(self), 'event')}, {by}"

    def shown_events(self, most: int) -> ShownEvents | None:
        # Drawn as a policy delivers them, causes could come below their effects.
        return None if self._policy else ShownEvents([(FOUND, event) for event in islice(self, most)], len(self))

    def shown_rows(self, most: int) -> tuple[pa.Table, int | None]:
        tables = order_tables(self._run, policy=self._policy, columns=self._run.event_schema().names)
        return self._table(islice(tables, 1)).slice(0, most), len(self)


def plain_table(table: pa.Table) -> pa.Table:
    """Decode dictionaries, and complete ids: an event whose source gave none is called ``process:seq``."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    table = pa.table(columns, names=table.column_names)
    if not {"id", "process", "seq"} <= {*table.column_names}:
        return table
    by_number = pc.binary_join_element_wise(table["process"], table["seq"].cast(pa.string()), ":")
    return table.set_column(table.column_names.index("id"), "id", pc.coalesce(table["id"], by_number))


def order_tables(run: Run, *, policy: str | None, columns: list[str], skip: int = 0) -> Iterator[pa.Table]:
    """Yield all events as tables: ``position``, the columns and, under a policy, ``at``, ``waited`` and ``late``.

    A table has some thousand rows. The first `skip` events are left out; their columns are not read.
    """
    if policy is None:
        for number in range(len(run.segments)):
            begin = int(run.segments.first_position[number])
            for start in range(max(0, skip - begin), int(run.segments.rows[number]), layout.EVENT_ROWS):
                stop = min(int(run.segments.rows[number]), start + layout.EVENT_ROWS)
                yield _with_position(
                    run.events(number, columns, start, stop), np.arange(begin + start, begin + stop, dtype=np.int64)
                )
        return
    for table in _merged(run, delivery_files(run, policy)):
        skip, table = max(0, skip - len(table)), table.slice(min(skip, len(table)))
        positions = table["position"].to_numpy()
        for start in range(0, len(positions), layout.EVENT_ROWS):
            chosen = positions[start : start + layout.EVENT_ROWS]
            rows = _with_position(run.rows(chosen, columns), chosen)
            for name in ("at", "waited", "late"):
                rows = rows.append_column(name, table[name].slice(start, len(chosen)))
            yield rows


def order_events(run: Run, *, policy: str | None) -> Iterator[Event]:
    """Yield all events as values."""
    columns = event_columns(run)
    for table in order_tables(run, policy=policy, columns=columns):
        lists: dict[str, list[Any]] = {name: table[name].to_pylist() for name in columns}
        yield from events_from(run, lists, table["position"].to_numpy())


def order_documents(run: Run, *, policy: str | None, skip: int = 0) -> Iterator[dict[str, Any]]:
    """Yield all events for `json.dumps`; under a policy, with ``at``, ``waited`` and ``late``. Skip the first `skip`."""
    columns = event_columns(run)
    further = [name for name in ("at", "waited", "late") if policy is not None]
    for table in order_tables(run, policy=policy, columns=columns, skip=skip):
        events = events_from(run, {name: table[name].to_pylist() for name in columns}, table["position"].to_numpy())
        delivered = table.select(further).to_pylist() if further else [{}] * len(events)
        for event, delivery in zip(events, delivered, strict=True):
            yield event.to_json() | delivery


def delivery_files(run: Run, policy: str) -> list[str]:
    """List the files of a policy's deliveries, one for each segment; raise `UnknownPolicy` if there are none.

    A policy is named as in the history, ``cbd-0.6``, or as on the command line, ``cbd:0.6``.
    """
    policies = run.manifest.policies
    name = policy if policy in policies else _name_in_history(policy)
    if name not in policies:
        names = ", ".join(sorted(policies)) or "none"
        raise UnknownPolicy(
            f"the history has no deliveries under {policy!r}; it has {names}. Choose policies when the history is made: "
            "ledto observe --policy; or make a copy with others: ledto simulate H --to COPY --policy cbd:0.6"
        )
    return list(policies[name].files)


def _name_in_history(typed: str) -> str:
    """Give the name under which a history has a policy of the command line; the text itself if it is none."""
    from ledto.delivery.policies import WHOLE_WAIT, read_paper_name, read_policies

    try:
        (option,) = read_policies([read_paper_name(typed)], phi=WHOLE_WAIT)
    except ValueError:
        return typed
    return option.name


def _with_position(table: pa.Table, positions: Longs) -> pa.Table:
    return table.add_column(0, "position", pa.array(positions))


def _merged(run: Run, files: list[str]) -> Iterator[pa.Table]:
    """Merge the deliveries of all segments; yield them in order, in pieces.

    Deliveries are held in memory until no later segment has an earlier one. Segments overlap little in time.
    """
    earliest = np.array([_earliest(run.table(name)) for name in files] + [NEVER], np.int64)
    following = np.minimum.accumulate(earliest[::-1])[::-1]
    held: pa.Table | None = None
    for number, name in enumerate(files):
        table = run.table(name).read(use_threads=False)
        first = int(run.segments.first_position[number])
        table = _with_position(table, np.arange(first, first + len(table), dtype=np.int64))
        held = table if held is None else pa.concat_tables([held, table])
        last = number == len(files) - 1
        held = _sorted(held)
        times = _times(held)
        ready = len(held) if last else int(np.searchsorted(times, following[number + 1]))
        if ready:
            yield held.slice(0, ready)
            held = held.slice(ready).combine_chunks()


def _times(table: pa.Table) -> Longs:
    times: Longs = table["at"].fill_null(NEVER).to_numpy()
    return times


def _sorted(table: pa.Table) -> pa.Table:
    keys = [table["position"].to_numpy()]
    for name in reversed(DELIVERY_KEY):
        column = name if name in table.column_names else "rank"
        keys.append(table[column].cast(pa.int64()).fill_null(NEVER).to_numpy())
    return table.take(pa.array(np.lexsort(keys)))


def _earliest(file: pq.ParquetFile) -> int:
    """Find the first time of delivery in a file, from its statistics or else by reading the column."""
    place = file.schema_arrow.get_field_index("at")
    least = NEVER
    for group in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(group).column(place).statistics
        if statistics is None or not statistics.has_min_max:
            column = file.read_row_group(group, columns=["at"], use_threads=False)["at"].fill_null(NEVER).to_numpy()
            least = min(least, int(column.min(initial=NEVER)))
        else:
            least = min(least, int(statistics.min))
    return least
