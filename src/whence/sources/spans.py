"""Spans of any tracing system as rows of `REPORTS`: one for its start, one for each of its events, one for its end.

A span is an instance in the sense of autonomous causality: starting a child duplicates it, the child's end combines the
two again. What that means for the order of events is worked out where all spans of a trace are at hand
(`whence.causality.instances`); here each span is taken by itself, so that files can be read in any order and parts.

Readers give spans as plain values, in the order of the fields of `Span`, and the columns of their rows are made for
thousands of spans at once: that takes a third of the time of making each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import astuple

from whence.events.schema import ANSWERS, AWAITS, COLUMNS, END, LOCAL, RECEIVE, REPORTS, SEND, SPAN, START
from whence.sources.rows import BATCH_BYTES, BATCH_ROWS, MOST_CAUSES, Row, Values, received, too_many_causes, values_of

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = "internal", "server", "client", "producer", "consumer"
SPAN_KINDS: Final = (INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER)

_KIND_AT_START = {INTERNAL: LOCAL, SERVER: RECEIVE, CONSUMER: RECEIVE, CLIENT: SEND, PRODUCER: SEND}
_AT_END = {
    **{(kind, False): (LOCAL, END) for kind in SPAN_KINDS},
    **{(kind, True): (LOCAL, END) for kind in SPAN_KINDS},
    (SERVER, True): (SEND, ANSWERS),
    (CLIENT, True): (RECEIVE, AWAITS),
}
"""The kind and phase of a span's end, by the span's kind and whether it is waited for."""

Moment: TypeAlias = tuple[int, str, str | None]
"""Something that a span recorded while it ran: time, name, and attributes as a JSON object."""

Arrays: TypeAlias = dict[str, pa.Array]


class Span(Struct, gc=False):
    """One span as its process reported it; times in the history's unit."""

    trace: str
    key: str
    """Its id within the trace."""
    process: str
    name: str
    start: int
    end: int | None
    """None for a span that was still open when it was written."""
    kind: str = INTERNAL
    parent: str | None = None
    awaited: bool = True
    """False where the source says that the parent does not wait for it."""
    failed: bool = False
    links: Sequence[tuple[str, str]] = ()
    """Other causes: trace and span."""
    moments: Sequence[Moment] = ()
    start_attributes: str | None = None
    end_attributes: str | None = None
    """JSON objects; what is only known of a span as a whole belongs to its end."""
    place: int = 0
    """Where it stands in its file."""


_WIDTH = len(Span.__struct_fields__)


class Spans(Struct, gc=False):
    """Values of spans, those of `Span` of the first, then of the second, and so on; a few thousand at most."""

    values: list[Any]
    size_bytes: int
    """About what the texts of their rows take."""


Found: TypeAlias = Spans | Row | list[Values]
"""What a reader gives at a time: spans, or one or more other rows of `REPORTS`."""


def spans_of(*spans: Span) -> Spans:
    """These spans as their values. Raises `BadRecord` for a span with too many links."""
    for span in spans:
        if len(span.links) > MOST_CAUSES:
            raise too_many_causes(len(span.links))
    texts = (text for span in spans for text in (span.start_attributes, span.end_attributes, 2 * span.process))
    size_bytes = sum(len(text) for text in texts if text)
    size_bytes += sum(len(moment[2] or "") for span in spans for moment in span.moments)
    return Spans([value for span in spans for value in astuple(span)], size_bytes)


def span_key(trace: str, span: str) -> str:
    """How other events refer to the start of a span."""
    return f"{SPAN}{trace}/{span}"


def span_batches(found: Iterable[Found], file: str) -> Iterator[pa.RecordBatch]:
    """The rows in batches of about `BATCH_ROWS` and `BATCH_BYTES`, in the order in which they were found."""
    held = _Held(file)
    for each in found:
        held.add(each)
        if held.is_full:
            yield held.batch()
            held = _Held(file)
    if held.rows:
        yield held.batch()


class _Held:
    """What becomes one batch."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._values: list[Any] = []
        self._others: list[Values] = []
        self._spans_before_others: list[int] = []
        self._size_bytes = 0
        self.rows = 0

    @property
    def is_full(self) -> bool:
        return self.rows >= BATCH_ROWS or self._size_bytes > BATCH_BYTES

    def add(self, found: Found) -> None:
        if isinstance(found, Spans):
            self._values += found.values
            self._size_bytes += found.size_bytes
            # Their starts and ends; those with more events are few.
            self.rows += 2 * len(found.values) // _WIDTH
        else:
            if isinstance(found, Row):
                found = [values_of(found)]
            self._others += found
            self._spans_before_others += [len(self._values) // _WIDTH] * len(found)
            self._size_bytes += sum(len(row[_ATTRIBUTES] or "") + len(row[_PROCESS] or "") for row in found)
            self.rows += len(found)

    def batch(self) -> pa.RecordBatch:
        """Make the columns of starts, events, ends and other rows, each by itself, and put the rows in their order."""
        spans = _Columns(self._values)
        starts, (moments, of_moments), (ends, of_ends) = spans.starts(), spans.moments(), spans.ends()
        others = {
            name: pa.array([row[number] for row in self._others], REPORTS.field(name).type)
            for number, name in enumerate(COLUMNS)
        }
        parts = [(starts, len(spans)), (moments, len(of_moments)), (ends, len(of_ends)), (others, len(self._others))]
        # Of the rows that belong to one span, an other row comes first: it stands before the span.
        order = np.argsort(
            np.concatenate(
                [
                    np.arange(len(spans)) * 4 + 1,
                    np.array(of_moments, np.int64) * 4 + 2,
                    np.array(of_ends, np.int64) * 4 + 3,
                    np.array(self._spans_before_others, np.int64) * 4,
                ]
            ),
            kind="stable",
        )
        return pa.RecordBatch.from_arrays(
            [self._column(field, [part for part in parts if part[1]], order) for field in REPORTS], schema=REPORTS
        )

    def _column(self, field: pa.Field, parts: list[tuple[Arrays, int]], order: np.ndarray) -> pa.Array:
        if field.name == "file":
            return pa.repeat(self._file, len(order))
        found = [part.get(field.name) for part, _ in parts]
        if all(array is None or array.null_count == len(array) for array in found):
            return pa.nulls(len(order), field.type)
        pieces = [
            pa.nulls(count, field.type) if array is None else array
            for array, (_, count) in zip(found, parts, strict=True)
        ]
        return pa.concat_arrays(pieces).take(pa.array(order))


_PROCESS, _ATTRIBUTES = COLUMNS.index("process"), COLUMNS.index("attributes")


class _Columns:
    """The values of spans as columns."""

    def __init__(self, values: list[Any]) -> None:
        self._of = {name: values[number::_WIDTH] for number, name in enumerate(Span.__struct_fields__)}
        self._shared = {
            "computation": _texts(self._of["trace"]),
            "process": _texts(self._of["process"]),
            "place": pa.array(self._of["place"], pa.int64()),
            "instance_key": _texts(self._of["key"]),
        }
        """What every row of a span has."""
        self._names = _texts(self._of["name"])

    def __len__(self) -> int:
        return len(self._names)

    def starts(self) -> Arrays:
        """The columns of their starts."""
        keys, kinds = self._shared["instance_key"], self._of["kind"]
        causes = [
            received([span_key(*link) for link in links]) if links else (None, None) for links in self._of["links"]
        ]
        return self._shared | {
            "time": pa.array(self._of["start"], pa.int64()),
            "kind": _texts([_KIND_AT_START[kind] for kind in kinds]),
            "sends": pc.binary_join_element_wise(SPAN, self._shared["computation"], "/", keys, ""),
            "receives": _texts([first for first, _ in causes]),
            "receives_more": pa.array([more for _, more in causes], pa.list_(pa.string())),
            "id": pc.binary_join_element_wise(keys, "/start", ""),
            "name": pc.binary_join_element_wise(self._names, " starts", ""),
            "attributes": _texts(self._of["start_attributes"]),
            "instance_parent": _texts(self._of["parent"]),
            "instance_phase": pa.repeat(START, len(self)),
        }

    def moments(self) -> tuple[Arrays, list[int]]:
        """The columns of what they recorded while they ran, and the numbers of their spans."""
        found = [(number, moment) for number, moments in enumerate(self._of["moments"]) for moment in moments]
        numbers = [number for number, _ in found]
        columns = {
            "time": pa.array([time for _, (time, _, _) in found], pa.int64()),
            "kind": pa.repeat(LOCAL, len(found)),
            "name": _texts([name for _, (_, name, _) in found]),
            "attributes": _texts([attributes for _, (_, _, attributes) in found]),
        }
        return self._shared_of(numbers) | columns, numbers

    def ends(self) -> tuple[Arrays, Sequence[int]]:
        """The columns of their ends, and the numbers of the spans that have ended."""
        given = [self._of[name] for name in ("kind", "awaited", "failed", "end_attributes", "end")]
        numbers: Sequence[int] = range(len(self))
        shared, names = self._shared, self._names
        if None in given[-1]:
            numbers = [number for number, end in enumerate(given[-1]) if end is not None]
            given = [[values[number] for number in numbers] for values in given]
            shared, names = self._shared_of(numbers), names.take(pa.array(numbers, pa.int64()))
        kinds, awaited, failed, attributes, ends = given
        at_end = [_AT_END[each] for each in zip(kinds, awaited, strict=True)]
        columns = {
            "time": pa.array(ends, pa.int64()),
            "kind": _texts([kind for kind, _ in at_end]),
            "id": shared["instance_key"],
            "name": pc.binary_join_element_wise(
                names,
                _texts([" fails" if each else " ends" for each in failed]),
                "",
            ),
            "attributes": _texts(attributes),
            "instance_phase": _texts([phase for _, phase in at_end]),
        }
        return shared | columns, numbers

    def _shared_of(self, numbers: Sequence[int]) -> Arrays:
        chosen = pa.array(numbers, pa.int64())
        return {name: column.take(chosen) for name, column in self._shared.items()}


def _texts(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.string())
