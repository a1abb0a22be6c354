"""Traces that link to each other become one computation, so that their events can be related."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from whence.events.schema import SPAN
from whence.history.instancing import OF_TRACE

INSTANCE_KEYS = ("instance_key", "instance_parent")


def join_linked_traces(reports: pa.Table) -> pa.Table:
    """Give traces with links between them the name of the first of them, by name; other rows stay as they are."""
    usable = reports.filter(pc.is_null(reports["reason"]))
    reported = set(pc.unique(usable["computation"]).to_pylist())
    pairs = {(own, other) for own, other in _linked_pairs(usable) if own != other and other in reported}
    names = components(pairs)
    if not names:
        return reports
    traces = reports["computation"].combine_chunks().dictionary_encode()
    known = traces.dictionary.to_pylist()
    linked = pa.array([names.get(name) for name in known], pa.string()).take(traces.indices)
    is_linked = pc.is_valid(linked)
    for column in INSTANCE_KEYS:
        within = pc.binary_join_element_wise(reports["computation"], reports[column], OF_TRACE)
        reports = _with_column(reports, column, pc.if_else(is_linked, within, reports[column]))
    return _with_column(reports, "computation", pc.coalesce(linked, reports["computation"]))


def _linked_pairs(usable: pa.Table) -> Iterator[tuple[str, str]]:
    starts = usable.filter(pc.and_(pc.is_valid(usable["instance_phase"]), pc.is_valid(usable["receives"])))
    columns = (starts[name].to_pylist() for name in ("computation", "receives", "receives_more"))
    for own, first, more in zip(*columns, strict=True):
        for key in (first, *(more or ())):
            if key.startswith(SPAN):
                yield own, key[len(SPAN) :].partition("/")[0]


def _with_column(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), values)


def components(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give each name the first of all names that pairs connect it with, itself included."""
    above: dict[str, str] = {}

    def top(name: str) -> str:
        while (higher := above.setdefault(name, name)) != name:
            above[name] = above[higher]
            name = higher
        return name

    for one, other in pairs:
        low, high = sorted((top(one), top(other)))
        above[high] = low
    return {name: top(name) for name in above}
