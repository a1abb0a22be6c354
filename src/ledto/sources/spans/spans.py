"""Turn spans of any tracing system into rows of `REPORTS`: for the start of a span, each event in it, and its end.

A span is a line of its process, named ``TRACE/SPAN``. Its start is a message to the spans that it starts. Its end is an
answer to its parent, which is assumed to have waited: spans do not record whether it did. The rows of a span depend on that
span only, so that files can be read in any order and in parts.

Readers give spans as plain values, in the order of the fields of `Span`. Columns are made for thousands of spans at once,
which takes a third of the time of making each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import astuple

from ledto.events.keys import ANSWER, SPAN, UNENDED, UNKNOWN_PLACE
from ledto.events.schema import COLUMNS, END, LOCAL, RECEIVE, REPORTS, SEND, START
from ledto.sources.error_column import errors_of
from ledto.sources.rows import BATCH_BYTES, BATCH_ROWS, MOST_CAUSES, Row, Values, received, too_many_causes, values_of

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = "internal", "server", "client", "producer", "consumer"
SPAN_KINDS: Final = (INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER)

_KIND_AT_START = {INTERNAL: LOCAL, SERVER: RECEIVE, CONSUMER: RECEIVE, CLIENT: SEND, PRODUCER: SEND}
_KIND_AT_END = {
    **{(kind, awaited): LOCAL for kind in SPAN_KINDS for awaited in (False, True)},
    (SERVER, True): SEND,
    **{(CLIENT, awaited): RECEIVE for awaited in (False, True)},
}
"""The kind of a span's end, by the span's kind and whether it is waited for."""

Moment: TypeAlias = tuple[int, str, str | None]
"""An event that a span recorded while it ran: time, name, and attributes as a JSON object."""

FAILURES: Final = ("exception", "error")
"""Names of moments that report a failure, in lower case: of OpenTelemetry, and of OpenTracing."""

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
    """The span of the same trace that started it; never itself."""
    awaited: bool = True
    """False if the source says that the parent does not wait for it."""
    failed: bool | None = None
    """Whether it failed; None if the source does not say."""
    links: Sequence[tuple[str, str]] = ()
    """Other causes: trace and span of each."""
    moments: Sequence[Moment] = ()
    start_attributes: str | None = None
    end_attributes: str | None = None
    """JSON objects. Attributes of the span as a whole belong to its end."""
    place: int = 0
    """Its place in its file."""


_WIDTH = len(Span.__struct_fields__)


class Spans(Struct, gc=False):
    """A few thousand spans at most, as values: all fields of the first `Span`, then of the second, and so on."""

    values: list[Any]
    size_bytes: int
    """About the size of the texts of their rows."""


SpansOrRows: TypeAlias = Spans | Row | list[Values]
"""What a reader yields: spans, or one or more other rows of `REPORTS`."""


def spans_of(*spans: Span) -> Spans:
    """Convert spans to their values. Raises `BadRecord` for a span with too many links."""
    for span in spans:
        check_causes(span.parent, span.links)
    texts = (text for span in spans for text in (span.start_attributes, span.end_attributes, 2 * span.process))
    size_bytes = sum(len(text) for text in texts if text)
    size_bytes += sum(len(moment[2] or "") for span in spans for moment in span.moments)
    return Spans([value for span in spans for value in astuple(span)], size_bytes)


def check_causes(parent: str | None, links: Sequence[object]) -> None:
    """Raise `BadRecord` if a span with this parent and these links would receive too many messages at its start."""
    count = len(links) + (parent is not None)
    if count > MOST_CAUSES:
        raise too_many_causes(count)


def span_key(trace: str, span: str) -> str:
    """Return the key of the message that the start of a span sends."""
    return f"{SPAN}{trace}/{span}"


def span_batches(read: Iterable[SpansOrRows], file: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of about `BATCH_ROWS` and `BATCH_BYTES`, in the order in which they were read."""
    pending = _PendingBatch(file)
    for spans_or_rows in read:
        pending.add(spans_or_rows)
        if pending.is_full:
            yield pending.batch()
            pending = _PendingBatch(file)
    if pending.rows:
        yield pending.batch()


class _PendingBatch:
    """Spans and other rows that become one batch."""

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

    def add(self, added: SpansOrRows) -> None:
        if isinstance(added, Spans):
            self._values += added.values
            self._size_bytes += added.size_bytes
            # Count starts and ends only: few spans have other events.
            self.rows += 2 * len(added.values) // _WIDTH
        else:
            if isinstance(added, Row):
                added = [values_of(added)]
            self._others += added
            self._spans_before_others += [len(self._values) // _WIDTH] * len(added)
            self._size_bytes += sum(len(row[_ATTRIBUTES] or "") + len(row[_PROCESS] or "") for row in added)
            self.rows += len(added)

    def batch(self) -> pa.RecordBatch:
        """Make the columns of starts, moments, ends and other rows separately, then put the rows in order."""
        spans = _SpanColumns(self._values)
        starts, (moments, of_moments), (ends, of_ends) = spans.starts(), spans.moments(), spans.ends()
        others = {
            name: pa.array([row[number] for row in self._others], REPORTS.field(name).type)
            for number, name in enumerate(COLUMNS)
        }
        others["error"] = errors_of(others["error"], others["attributes"])
        parts = [(starts, len(spans)), (moments, len(of_moments)), (ends, len(of_ends)), (others, len(self._others))]
        # By span; within a span: the other rows before it, its start, its moments, its end.
        span_numbers = [np.arange(len(spans)), of_moments, of_ends, self._spans_before_others]
        within = np.repeat([1, 2, 3, 0], [count for _, count in parts])
        order = np.lexsort((within, np.concatenate([np.array(numbers, np.int64) for numbers in span_numbers])))
        return pa.RecordBatch.from_arrays(
            [self._column(field, [part for part in parts if part[1]], order) for field in REPORTS], schema=REPORTS
        )

    def _column(self, field: pa.Field, parts: list[tuple[Arrays, int]], order: np.ndarray) -> pa.Array:
        if field.name == "file":
            return pa.repeat(self._file, len(order))
        arrays = [part.get(field.name) for part, _ in parts]
        if all(array is None or array.null_count == len(array) for array in arrays):
            return pa.nulls(len(order), field.type)
        pieces = [
            pa.nulls(count, field.type) if array is None else array
            for array, (_, count) in zip(arrays, parts, strict=True)
        ]
        return pa.concat_arrays(pieces).take(pa.array(order))


_PROCESS, _ATTRIBUTES = COLUMNS.index("process"), COLUMNS.index("attributes")


class _SpanColumns:
    """The values of spans as columns."""

    def __init__(self, values: list[Any]) -> None:
        self._of = {name: values[number::_WIDTH] for number, name in enumerate(Span.__struct_fields__)}
        self._shared = {
            "computation": pa.repeat("", len(values) // _WIDTH),
            "process": _texts(self._of["process"]),
            "place": pa.array(self._of["place"], pa.int64()),
            "line": _line(_texts(self._of["trace"]), _texts(self._of["key"])),
            "line_parent": _line(_texts(self._of["trace"]), _texts(self._of["parent"])),
        }
        """Columns that all rows of a span have in common."""
        self._keys = _texts(self._of["key"])
        self._names = _texts(self._of["name"])

    def __len__(self) -> int:
        return len(self._names)

    def starts(self) -> Arrays:
        """Return the columns of their starts."""
        parent = pc.binary_join_element_wise(SPAN, self._shared["line_parent"], "")
        linked = [[span_key(*link) for link in links] if links else [] for links in self._of["links"]]
        for number in self._open_calls():
            linked[number].append(f"{UNENDED}{self._of['trace'][number]}/{self._of['key'][number]}")
        if any(linked):
            parents_and_links = zip(parent.to_pylist(), linked, strict=True)
            # A span may link to its own parent: that is one cause, not two.
            causes = [received([*dict.fromkeys([*([one] if one else []), *more])]) for one, more in parents_and_links]
            parent = _texts([first for first, _ in causes])
            more = pa.array([more for _, more in causes], pa.list_(pa.string()))
        else:
            more = pa.nulls(len(self), pa.list_(pa.string()))
        return self._shared | {
            "time": pa.array(self._of["start"], pa.int64()),
            "kind": _texts([_KIND_AT_START[kind] for kind in self._of["kind"]]),
            "sends": pc.binary_join_element_wise(SPAN, self._shared["line"], ""),
            "receives": parent,
            "receives_more": more,
            "id": pc.binary_join_element_wise(self._keys, "/start", ""),
            "name": pc.binary_join_element_wise(self._names, " starts", ""),
            "attributes": _texts(self._of["start_attributes"]),
            "line_phase": pa.repeat(START, len(self)),
            "error": self._errors_of_open(),
        }

    def _open_calls(self) -> list[int]:
        """Return the numbers of clients' spans that had not ended when they were reported."""
        if None not in self._of["end"]:
            return []
        ends_and_kinds = zip(self._of["end"], self._of["kind"], strict=True)
        return [number for number, (end, kind) in enumerate(ends_and_kinds) if end is None and kind == CLIENT]

    def _errors_of_open(self) -> pa.Array:
        """Return the column ``error`` of starts: whether an open span failed. The error of others is that of their end."""
        if None not in self._of["end"]:
            return pa.nulls(len(self), pa.bool_())
        spans = zip(*(self._of[name] for name in ("end", "failed", "start_attributes")), strict=True)
        of_open = [(failed, attributes) if end is None else (None, None) for end, failed, attributes in spans]
        failed, attributes = (list(column) for column in zip(*of_open, strict=True))
        return _errors(failed, _texts(attributes), self._of["kind"])

    def moments(self) -> tuple[Arrays, list[int]]:
        """Return the columns of their moments, and the numbers of the spans they belong to."""
        moments = [
            (number, f"{self._of['key'][number]}/{nth}", moment)
            for number, of_span in enumerate(self._of["moments"])
            for nth, moment in enumerate(of_span, 1)
        ]
        numbers = [number for number, _, _ in moments]
        columns = {
            "time": pa.array([time for _, _, (time, _, _) in moments], pa.int64()),
            "kind": pa.repeat(LOCAL, len(moments)),
            "id": _texts([key for _, key, _ in moments]),
            "name": _texts([name for _, _, (_, name, _) in moments]),
            "attributes": _texts([attributes for _, _, (_, _, attributes) in moments]),
            "line_parent": pa.nulls(len(moments), pa.string()),
        }
        early = [UNKNOWN_PLACE if time < self._of["start"][number] else None for number, _, (time, _, _) in moments]
        columns["receives"] = _texts(early)
        by_name = [True if name.lower() in FAILURES else None for _, _, (_, name, _) in moments]
        columns["error"] = _errors(by_name, columns["attributes"], None)
        return self._shared_of(numbers) | columns, numbers

    def ends(self) -> tuple[Arrays, Sequence[int]]:
        """Return the columns of their ends, and the numbers of the spans that have ended."""
        columns_of_spans = [self._of[name] for name in ("start", "kind", "awaited", "failed", "end_attributes", "end")]
        numbers: Sequence[int] = range(len(self))
        shared, names, keys = self._shared, self._names, self._keys
        if None in columns_of_spans[-1]:
            numbers = [number for number, end in enumerate(columns_of_spans[-1]) if end is not None]
            columns_of_spans = [[values[number] for number in numbers] for values in columns_of_spans]
            ended = pa.array(numbers, pa.int64())
            shared, names, keys = self._shared_of(numbers), names.take(ended), keys.take(ended)
        begun, kinds, awaited, failed, attributes, ends = columns_of_spans
        at_end = _texts([_KIND_AT_END[kind_and_awaited] for kind_and_awaited in zip(kinds, awaited, strict=True)])
        no_key = pa.scalar(None, pa.string())
        answer_to, answer = (pc.binary_join_element_wise(ANSWER, shared[name], "") for name in ("line_parent", "line"))
        # Nobody waits for a consumer, and a producer waits for nobody.
        answers = pa.array([wait and kind != CONSUMER for kind, wait in zip(kinds, awaited, strict=True)], pa.bool_())
        waits = pa.array([kind != PRODUCER for kind in kinds], pa.bool_())
        columns = {
            "time": pa.array(ends, pa.int64()),
            "kind": at_end,
            "sends": pc.if_else(answers, answer_to, no_key),
            "receives": pc.if_else(waits, answer, no_key),
            "id": keys,
            "name": pc.binary_join_element_wise(
                names,
                _texts([" fails" if has_failed else " ends" for has_failed in failed]),
                "",
            ),
            "attributes": _texts(attributes),
            "line_parent": pa.nulls(len(ends), pa.string()),
            "line_phase": pa.repeat(END, len(ends)),
            "line_since": pa.array(begun, pa.int64()),
        }
        early = [end < start for start, end in zip(begun, ends, strict=True)]
        if any(early):
            # An end before its start has no known place in its process.
            columns["receives_more"] = pa.array([[UNKNOWN_PLACE] if is_early else None for is_early in early])
            columns["receives"] = pc.if_else(waits, answer, pc.if_else(pa.array(early), UNKNOWN_PLACE, no_key))
            columns["receives_more"] = pc.if_else(
                waits, columns["receives_more"], pa.scalar(None, pa.list_(pa.string()))
            )
        columns["error"] = _errors(failed, columns["attributes"], kinds)
        return shared | columns, numbers

    def _shared_of(self, numbers: Sequence[int]) -> Arrays:
        chosen = pa.array(numbers, pa.int64())
        return {name: column.take(chosen) for name, column in self._shared.items()}


def _errors(failed: list[bool | None], attributes: pa.Array, kinds: list[str] | None) -> pa.Array:
    """Return `failed`, with nulls filled from the attributes. `kinds` are the kinds of spans, if the rows are their ends."""
    of_client = None if kinds is None else np.array([kind == CLIENT for kind in kinds], np.bool_)
    return errors_of(pa.array(failed, pa.bool_()), attributes, of_client)


def _line(trace: pa.Array, span: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(trace, span, "/")


def _texts(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.string())
