"""The conformance check that ships: our sources pass it, and sources that break a promise do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
import pytest

from ledto.sources import FileSlice, Source, SourceCheckFailed, check_source
from ledto.sources.contract import Records
from ledto.sources.native.lines import JsonLines
from ledto.sources.shiviz.source import ShiViz
from tests.sources.reading import SAMPLES

RUNS_REGEX = r"(?<timestamp>\S+) \[(?<level>\w+)\] (?<event>.*)\n(?<host>\S*) (?<clock>{.*})"


@pytest.mark.parametrize(
    ("source", "sample"),
    [
        (JsonLines(), "shop.jsonl"),
        (JsonLines(compiled_from_bytes=0), "shop.jsonl"),
        (JsonLines(unit="ticks"), "shop.jsonl"),
        (JsonLines(), "lines.jsonl"),
        (JsonLines(compiled_from_bytes=0), "lines.jsonl"),
        (ShiViz(), "shop.log"),
        (ShiViz(regex=RUNS_REGEX, delimiter="^=== (?<trace>.*) ===$"), "runs.log"),
        (ShiViz(regex=RUNS_REGEX, complete=False), "runs.log"),
    ],
    ids=str,
)
def test_every_source_keeps_its_promises(source: Source, sample: str) -> None:
    """A source that lost, invented or reordered one record would change what caused what, without a word."""
    assert check_source(source, (SAMPLES / sample).read_bytes(), mutations=150) > 150


@dataclass
class Broken:
    """JSON lines with something wrong; a broken source overrides `change`."""

    name: ClassVar[str] = "broken"
    suffixes: ClassVar[tuple[str, ...]] = ()
    splittable: ClassVar[bool] = True
    records: ClassVar[Records] = "lines"
    inner: JsonLines = field(default_factory=JsonLines)

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        for batch in self.inner.read(self.taken(piece)):
            yield self.change(batch)

    def taken(self, piece: FileSlice) -> FileSlice:
        return piece

    def change(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


class DropsBadRows(Broken):
    def change(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pa.compute.is_null(batch["reason"]))


class AnotherSchema(Broken):
    def change(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column("extra", batch["seq"])


class KeepsNoText(Broken):
    def change(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(
            batch.num_columns - 1, batch.schema.field("text"), pa.nulls(batch.num_rows, pa.string())
        )


@dataclass
class Fills(Broken):
    """Gives every row the same value in one column."""

    column: str = ""
    value: object = None

    def change(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        number = batch.schema.get_field_index(self.column)
        values = pa.array([self.value] * batch.num_rows, batch.schema.field(number).type)
        return batch.set_column(number, batch.schema.field(number), values)


class Raises(Broken):
    def change(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch["reason"].null_count < batch.num_rows:
            raise KeyError("process")
        return batch


class ReadsTheWholeFile(Broken):
    def taken(self, piece: FileSlice) -> FileSlice:
        return FileSlice(piece.file, piece.open_at)


class ForgetsLinesBefore(Broken):
    def taken(self, piece: FileSlice) -> FileSlice:
        return FileSlice(piece.file, piece.open_at, piece.start, piece.stop)


@dataclass
class Counts(Broken):
    calls: int = 0

    def change(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.calls += 1
        names = pa.array([str(self.calls)] * batch.num_rows)
        return batch.set_column(batch.schema.get_field_index("name"), batch.schema.field("name"), names)


class TakesOneRead(Broken):
    splittable = False

    def taken(self, piece: FileSlice) -> FileSlice:
        with_all = piece.open_at(0).read(1 << 20)
        return FileSlice(piece.file, piece.open_at, 0, len(with_all))


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (DropsBadRows(), "lines that are not blank give"),
        (AnotherSchema(), "another schema"),
        (KeepsNoText(), "a bad row has its text"),
        (Fills(column="line", value=""), "lines have names"),
        (Fills(column="line_parent", value=""), "lines have names"),
        (Fills(column="line_joins", value=[None]), "lines have names"),
        (Fills(column="line_joins", value=[]), "joined lines are null or at least one"),
        (Fills(column="line_parent", value="main"), "a row with a line's parent or phase has a line"),
        (Fills(column="line_phase", value="start"), "a row with a line's parent or phase has a line"),
        (Fills(column="line_phase", value="middle"), "a phase is start, end or first"),
        (Raises(), "reading raised KeyError"),
        (ReadsTheWholeFile(), "gives other rows than the whole"),
        (ForgetsLinesBefore(), "gives other rows than the whole"),
        (Counts(), "read again, gives other rows"),
        (TakesOneRead(), "bytes at a time, gives other rows"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_source_that_breaks_a_promise_is_caught(source: Source, complaint: str) -> None:
    """Without this, the check could pass on anything, and the author of a new source would learn nothing from it."""
    with pytest.raises(SourceCheckFailed, match=complaint):
        check_source(source, (SAMPLES / "shop.jsonl").read_bytes(), mutations=20)


def test_a_sample_without_records_is_refused() -> None:
    """A check of nothing would pass, and its author would believe it."""
    with pytest.raises(SourceCheckFailed, match="gives no rows"):
        check_source(JsonLines(), b"\n\n")
