"""A folder as a source: each file once, in a fixed order, and the same again after any restart."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from ledto.sources import source
from ledto.spark.stream import FRAMES, StreamSourceError, open_piece, open_source
from ledto.spark.stream.files import journal as journal_module
from ledto.spark.stream.files import list_files as listing_module
from ledto.spark.stream.files import source as directory_module
from ledto.spark.stream.files.source import FilesDataSource, FilesStreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEADLINE_SECONDS = 60.0
SECOND_NS = 10**9


def put(folder: Path, name: str, seqs: range | list[int], *, second: int) -> Path:
    """A file of reports that appears whole, modified at that second."""
    lines = "".join(json.dumps({"process": "p", "seq": seq}) + "\n" for seq in seqs)
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text(lines)
    os.utime(hidden, ns=(second * SECOND_NS, second * SECOND_NS))
    return hidden.rename(folder / name)


def reader(folder: Path | str, journal: Path, **options: Any) -> FilesStreamReader:
    """What Spark would make, in this process."""
    given = {"place": str(folder), "journal": str(journal)}
    return FilesDataSource(given | {name: str(value) for name, value in options.items()}).streamReader(None)  # type: ignore[arg-type]


def rows_between(following: FilesStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for part in following.partitions(start, end):
        for batch in following.read(part):
            assert batch.schema == FRAMES
            rows += batch.to_pylist()
    return rows


def taken(following: FilesStreamReader, start: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The names of the files that are new, and where they end."""
    end = following.latestOffset(start, ReadAllAvailable())
    return [Path(row["origin"]).name for row in rows_between(following, start, end)], end


def seqs_of(payload: bytes, format: str) -> list[int]:
    return [seq for batch in source(format, {}).read(open_piece(payload)) for seq in batch["seq"].to_pylist()]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.integers(1, 50), min_size=1, max_size=4)),
        st.tuples(st.just("batch"), st.integers(1, 4)),
        st.tuples(st.just("delete"), st.integers(0, 3)),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(STEPS)
def test_each_file_comes_once_and_a_batch_that_runs_again_is_the_same(steps: list[tuple[str, Any]]) -> None:
    """Over files that appear, go away after they were read, limits, and restarts between an offset and its commit."""
    with tempfile.TemporaryDirectory() as temporary, pytest.MonkeyPatch.context() as patch:
        patch.setattr(directory_module, "_FORGET_FROM", 0)
        folder, journal = Path(temporary) / "in", Path(temporary) / "journal"
        folder.mkdir()
        following = reader(folder, journal, parallelism=3)
        committed = following.initialOffset()
        names: list[str] = []
        rows: list[dict[str, Any]] = []
        for what, value in [*steps, ("batch", 10**6), ("batch", 1)]:
            if what == "put":
                for second in value:
                    names.append(f"{len(names):04}.jsonl")
                    put(folder, names[-1], [len(names)], second=second)
            elif what == "delete":
                for row in rows[-value:] if value else []:
                    (folder / Path(row["origin"]).name).unlink(missing_ok=True)
            elif what == "restart" and not value:
                following.stop()
                following = reader(folder, journal, parallelism=3)
            else:
                limit = ReadMaxFiles(value if what == "batch" else 2)
                end = following.latestOffset(committed, limit)
                found = rows_between(following, committed, end)
                if what == "restart":
                    put(folder, f"{len(names):04}.jsonl", [len(names) + 1], second=1)
                    names.append(f"{len(names):04}.jsonl")
                    following.stop()
                    following = reader(folder, journal)
                    assert rows_between(following, committed, end) == found
                assert len(found) <= limit.max_files
                assert [seqs_of(row["payload"], row["format"]) for row in found] == [
                    [int(Path(row["origin"]).stem) + 1] for row in found
                ]
                rows += found
                committed = end
                following.commit(end)
        following.stop()
    assert sorted(Path(row["origin"]).name for row in rows) == names
    assert [row["sequence"] for row in rows] == list(range(len(names)))
    assert [row["arrival"] for row in rows] == sorted(row["arrival"] for row in rows)


def test_what_is_read_again_does_not_depend_on_what_the_folder_became(tmp_path: Path) -> None:
    """An offset is a number; what it stands for must outlive older files that appear late and files that are removed."""
    folder, journal = tmp_path / "in", tmp_path / "journal"
    put(folder, "b.jsonl", range(3), second=20)
    put(folder, "c.jsonl", range(3), second=10)
    put(folder, "a.jsonl", range(3), second=20)
    following = reader(folder, journal)
    start = following.initialOffset()
    names, end = taken(following, start)
    assert names == ["c.jsonl", "a.jsonl", "b.jsonl"]
    first = rows_between(following, start, end)
    put(folder, "0.jsonl", range(3), second=1)
    (folder / "c.jsonl").unlink()
    following.stop()
    following = reader(folder, journal)
    assert rows_between(following, start, end) == first
    names, end = taken(following, end)
    assert names == ["0.jsonl"]
    assert [row["arrival"] for row in rows_between(following, start, end)] == [10 * SECOND_NS, *[20 * SECOND_NS] * 3]
    following.stop()


def test_a_journal_that_was_torn_goes_on_and_one_that_was_exchanged_does_not(tmp_path: Path) -> None:
    """A machine that dies while it writes must not stop the stream for good, nor may another journal pass for this one."""
    folder, journal = tmp_path / "in", tmp_path / "journal"
    put(folder, "a.jsonl", range(3), second=1)
    following = reader(folder, journal)
    start = following.initialOffset()
    _, end = taken(following, start)
    following.stop()
    with journal.open("ab") as file:
        file.write(b'{"number":1,"name":"b.js')
    put(folder, "b.jsonl", range(3), second=2)
    following = reader(folder, journal)
    names, later = taken(following, end)
    assert names == ["b.jsonl"]
    following.stop()
    following = reader(folder, journal)
    assert [row["sequence"] for row in rows_between(following, start, later)] == [0, 1]
    following.stop()
    journal.unlink()
    following = reader(folder, journal)
    with pytest.raises(StreamSourceError, match="not the one that the checkpoint was made with"):
        following.latestOffset(later, ReadAllAvailable())
    following.stop()
    journal.write_bytes(b"\x00\x01\n")
    with pytest.raises(StreamSourceError, match="is damaged"):
        reader(folder, journal).initialOffset()


def test_a_file_that_vanished_or_changed_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Rows of what is there now, under the number of what was there, would be another history after a restart."""
    folder = tmp_path / "in"
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        put(folder, name, range(3), second=1)
    following = reader(folder, tmp_path / "journal")
    start = following.initialOffset()
    rows = rows_between(following, start, following.latestOffset(start, ReadAllAvailable()))
    following.stop()
    (folder / "a.jsonl").unlink()
    put(folder, "b.jsonl", [7, 8, 9], second=2)
    with pytest.raises(StreamSourceError, match=r"a\.jsonl is gone"):
        open_piece(rows[0]["payload"])
    with pytest.raises(StreamSourceError, match=r"b\.jsonl has changed"):
        open_piece(rows[1]["payload"])
    assert seqs_of(rows[2]["payload"], rows[2]["format"]) == [0, 1, 2]


def test_large_files_come_in_pieces_that_make_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day's log in one task would leave the cluster idle; a line at a cut, lost or doubled, would be a wrong history."""
    monkeypatch.setattr(listing_module, "SPLIT_BYTES", 1_000)
    put(tmp_path / "in", "a.jsonl", range(400), second=1)
    following = reader(tmp_path / "in", tmp_path / "journal", parallelism=4, maxBytes=5_000)
    at, rows, batches = following.initialOffset(), [], 0
    while (end := following.latestOffset(at, following.getDefaultReadLimit())) != at:
        assert 1 <= len(following.partitions(at, end)) <= 4
        rows += rows_between(following, at, end)
        at, batches = end, batches + 1
    following.stop()
    assert len(rows) > 10
    assert batches > 2
    read = [batch for row in rows for batch in source("ledto", {}).read(open_piece(row["payload"]))]
    assert [seq for batch in read for seq in batch["seq"].to_pylist()] == list(range(400))
    assert [line for batch in read for line in batch["place"].to_pylist()] == list(range(1, 401))


def test_formats_are_told_apart_and_unfinished_files_left_alone(tmp_path: Path) -> None:
    """A folder mixes tools; a file that is still written, taken for whole, would be cut short for ever."""
    folder = tmp_path / "in"
    put(folder / "deep", "a.jsonl", range(2), second=1)
    (folder / "b.json").write_text('{"resourceSpans": []}')
    (folder / "c.jsonl").write_text("rubbish\n")
    (folder / "d.log").write_text('a {"a":1}\nstart\n')
    (folder / "e.json").write_text('{"unheard": "of"}')
    (folder / "f.parquet").write_bytes(b"PAR1....PAR1")
    for name in (".a.jsonl", "_b.jsonl", "c.jsonl.tmp", "readme.md"):
        (folder / name).write_text("{}")
    for second, name in enumerate(("b.json", "c.jsonl", "d.log", "e.json", "f.parquet"), start=2):
        os.utime(folder / name, (second, second))
    following = reader(folder, tmp_path / "journal")
    start = following.initialOffset()
    rows = rows_between(following, start, following.latestOffset(start, ReadAllAvailable()))
    following.stop()
    formats = {Path(row["origin"]).name: row["format"] for row in rows}
    assert formats == {
        "a.jsonl": "ledto",
        "b.json": "otlp",
        "c.jsonl": "ledto",
        "d.log": "shiviz",
        "e.json": None,
        "f.parquet": "parquet",
    }
    following = reader(folder / "*.t*p", tmp_path / "other journal", format="ledto")
    assert taken(following, following.initialOffset())[0] == []
    following.stop()


def test_places_that_cannot_be_followed_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt folder would otherwise be a stream in which nothing ever happens; an empty one is none of that."""
    (tmp_path / "empty").mkdir()
    following = reader(tmp_path / "empty", tmp_path / "journal")
    assert taken(following, following.initialOffset())[0] == []
    monkeypatch.setattr(journal_module, "_LOCK_SECONDS", 0.0)
    with pytest.raises(StreamSourceError, match=r"another run follows files with the journal .*/journal;"):
        reader(tmp_path / "empty", tmp_path / "journal").initialOffset()
    following.stop()
    following = reader(tmp_path / "none" / "*.jsonl", tmp_path / "journal")
    with pytest.raises(StreamSourceError, match=r"none.* cannot be followed"):
        following.latestOffset(following.initialOffset(), ReadAllAvailable())
    following.stop()
    with pytest.raises(StreamSourceError, match="needs the option journal"):
        open_source(str(tmp_path), {})
    with pytest.raises(StreamSourceError, match="maxFiles is 'few'"):
        open_source(str(tmp_path), {"journal": "j", "maxFiles": "few"})
    with pytest.raises(StreamSourceError, match="no option 'maxMessages'"):
        open_source(str(tmp_path), {"journal": "j", "maxMessages": 3})


def test_a_query_reads_what_appears_and_goes_on_after_a_failure(spark: SparkSession, tmp_path: Path) -> None:
    """Through Spark: files come between batches and restarts, and a batch that failed runs again with the same files."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    batches: dict[int, list[Any]] = {}
    fail_in: list[int] = []

    def keep(frame: DataFrame, number: int) -> None:
        def decode(incoming: Any) -> Any:
            import pyarrow as pa

            from ledto.sources import source
            from ledto.spark.stream.files.list_files import open_piece

            for batch in incoming:
                for row in batch.to_pylist():
                    for read in source(row["format"], {}).read(open_piece(row["payload"])):
                        numbers = pa.array([row["sequence"]] * len(read), pa.int64())
                        yield pa.RecordBatch.from_arrays([numbers, read["seq"]], ["number", "seq"])

        rows = [tuple(row) for row in frame.mapInArrow(decode, "number long, seq long").collect()]
        assert batches.setdefault(number, rows) == rows, "a batch that ran again had other rows"
        if fail_in and fail_in[0] == number:
            fail_in.clear()
            raise RuntimeError("as if killed")

    def run() -> Exception | None:
        following = open_source(str(folder), {"journal": str(checkpoint / "files"), "maxFiles": 2})
        writer = following.load(spark).writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(DEADLINE_SECONDS)
        except Exception as fault:
            return fault
        assert not query.isActive
        return None

    expected: list[tuple[int, int]] = []

    def put_some(*seconds: int) -> None:
        for second in seconds:
            number = len({number for number, _ in expected})
            put(folder, f"{second:03}.jsonl", [second, second + 1], second=second)
            expected.extend([(number, second), (number, second + 1)])

    put_some(10, 20, 30)
    assert run() is None
    put_some(40, 50, 60)
    fail_in.append(max(batches) + 1)
    assert "as if killed" in str(run())
    put(folder, "000.jsonl", [1], second=1)
    assert run() is None
    assert [row for number in sorted(batches) for row in batches[number]] == [*expected, (6, 1)]
    assert len(batches) == 4
