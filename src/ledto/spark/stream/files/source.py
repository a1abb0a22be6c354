"""Follow a folder, or a pattern, that files are put into: a row for each file, or piece of a large one, as they appear.

Rows name pieces and do not hold them: `payload` says which, and `open_piece` opens it where the row is decoded. The
offset counts pieces in a `Journal`, which must stay where the query's driver finds it again: beside its checkpoint.

Limits: the names of files in the folder and of those not yet read are remembered. Names of files that are gone are
forgotten from time to time, and a file that comes back after that counts as new. Listing takes time in proportion to
the files in the folder, sub-folders included, and at most a fifth of a core: move away what was read, or new files are
seen late.
"""

# ruff: noqa: N802  (Spark gives the methods of a data source their names)

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ledto.sources.registry import known_format
from ledto.spark.stream.contract import (
    FRAMES,
    FRAMES_DDL,
    StreamSourceError,
    refuse_unknown,
    split_by_weight,
    whole_number,
)
from ledto.spark.stream.files.journal import Journal, JournalEntry
from ledto.spark.stream.files.list_files import cut_files, describe_piece, find_new_files, list_files

OPTIONS: Final = ("journal", "format", "maxFiles", "maxBytes", "parallelism")
"""The options for a folder; see docs/follow.md."""

PARTITION: Final = "files"
"""The one `partition` of a folder."""

_FORMAT: Final = "ledto_files"
_MAX_FILES: Final = 1_000
_MAX_BYTES: Final = 256 << 20
_ALL: Final = 1 << 62
_FORGET_FROM: Final = 1_000
_LONG_LISTING_SECONDS: Final = 0.05
_REST: Final = 4
_TAKE_AT_LEAST: Final = 10_000


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """The files of a place.

    They must appear whole: be written as ``.NAME``, ``_NAME`` or ``NAME.tmp`` and then renamed.
    """

    place: str
    options: Mapping[str, Any]

    @classmethod
    def at(cls, place: str, options: Mapping[str, Any]) -> DirectorySource:
        """Make the source of a folder or a pattern, by path or by a URI, and check its options."""
        set_options = {name: value for name, value in options.items() if value is not None}
        refuse_unknown(set_options, OPTIONS, what="a folder")
        if not place:
            raise StreamSourceError("no folder is named; give a folder, or a pattern such as 'logs/*.jsonl'")
        if "journal" not in set_options:
            raise StreamSourceError(
                "following files needs the option journal: a file beside the checkpoint, which must last as long"
            )
        if set_options.get("format") is not None:
            known_format(set_options["format"])
        whole_number(set_options, "maxFiles", 1)
        whole_number(set_options, "maxBytes", 1)
        whole_number(set_options, "parallelism", 1)
        return cls(place if "://" in place else str(Path(place).absolute()), set_options)

    @property
    def name(self) -> str:
        """The name of the source, with its place."""
        return f"files:{self.place}"

    @property
    def names_files(self) -> bool:
        """True: payloads name pieces of files."""
        return True

    def describe(self) -> str:
        """Say where the files come from."""
        return f"files of {self.place}"

    def load(self, session: SparkSession) -> DataFrame:
        """Make the streaming DataFrame, with a row for each piece.

        Tasks read consecutive pieces, in order, of about the same number of bytes.
        """
        session.dataSource.register(FilesDataSource)
        options = {"parallelism": session.sparkContext.defaultParallelism, **self.options, "place": self.place}
        texts = {name: str(value) for name, value in options.items()}
        texts["journal"] = str(Path(texts["journal"]).absolute())
        return session.readStream.format(_FORMAT).options(**texts).load()

    def trim(self, upto: int) -> None:
        """Do nothing: the files belong to whoever put them there."""


class FilesDataSource(DataSource):
    """Spark's data source for `DirectorySource`, which should be used instead."""

    @classmethod
    def name(cls) -> str:
        """Get the name of the format."""
        return _FORMAT

    def schema(self) -> str:
        """Get the columns of `FRAMES`."""
        return FRAMES_DDL

    def streamReader(self, schema: StructType) -> FilesStreamReader:
        """Make a reader. Spark runs it in a process beside the driver, which lives as long as the query."""
        return FilesStreamReader(self.options)


@dataclass
class _Pieces(InputPartition):
    """The pieces that one task reads."""

    pieces: list[JournalEntry] = field(default_factory=list)


class FilesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the journal.

    Offsets are ``{"next": NUMBER, "journal": NAME}``: the next piece, of the journal with that name.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._place: str = options["place"]
        self._format: str | None = options.get("format")
        self._path = Path(options["journal"])
        self._max_files = whole_number(options, "maxFiles", _MAX_FILES)
        self._max_bytes = whole_number(options, "maxBytes", _MAX_BYTES)
        self._parallelism = whole_number(options, "parallelism", 1)
        self._opened: Journal | None = None
        self._stop_at: int | None = None
        self._listed: list[str] | None = None
        self._list_again = 0.0

    @property
    def _journal(self) -> Journal:
        # Opened only when needed: Spark makes readers in several processes, and only one of them asks for offsets.
        if self._opened is None:
            self._opened = Journal(self._path)
        return self._opened

    def initialOffset(self) -> dict[str, Any]:
        """Get the offset before the first file."""
        return {"next": 0, "journal": self._journal.name}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Get the limit that the options set."""
        return ReadMaxFiles(self._max_files)

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the files that are there; later ones are for another run."""
        self._record_new(_ALL)
        self._stop_at = self._journal.next

    def _record_new(self, most: int) -> None:
        """Record at most so many new files in the journal."""
        journal = self._journal
        began = time.monotonic()
        files = list_files(self._place, self._format)
        if (took := time.monotonic() - began) > _LONG_LISTING_SECONDS:
            self._list_again = time.monotonic() + _REST * took
        self._listed = [file.location for file in files]
        new = find_new_files(files, journal.locations, most)
        journal.append(cut_files(new, self._format, number=journal.next, arrival_ns=journal.arrival_ns))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Find how far the next micro-batch reads; lists the folder unless enough is waiting."""
        self._check_same(start)
        unlimited = isinstance(limit, ReadAllAvailable)
        most = _ALL if unlimited else limit.max_files if isinstance(limit, ReadMaxFiles) else self._max_files
        waiting = self._journal.next - start["next"]
        if self._stop_at is None and waiting < most and time.monotonic() >= self._list_again:
            # Record more than this batch needs, so that one long listing serves many batches.
            self._record_new(max(most - waiting, _TAKE_AT_LEAST))
        stop = self._journal.next if self._stop_at is None else self._stop_at
        if not unlimited:
            stop = self._end_of_batch(start["next"], stop, most)
        return start | {"next": max(start["next"], stop)}

    def _end_of_batch(self, start: int, stop: int, most: int) -> int:
        """Find the end of a batch of at most `most` pieces and the option's bytes, but of one piece at least."""
        done_bytes = 0
        for piece in self._journal.between(start, min(stop, start + most)):
            done_bytes += piece.weight_bytes
            if done_bytes > self._max_bytes and piece.number > start:
                return piece.number
        return min(stop, start + most)

    def _check_same(self, offset: dict[str, Any]) -> None:
        """Raise `StreamSourceError` if an offset is not of this journal."""
        if offset["journal"] != self._journal.name or offset["next"] > self._journal.next:
            raise StreamSourceError(
                f"the journal {self._path} is not the one that the checkpoint was made with, so what was read is not "
                "known; put it back, or start with a new checkpoint and history"
            )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_Pieces]:
        """Share the pieces among tasks: consecutive, in order, about the same bytes for each."""
        self._check_same(end)
        pieces = self._journal.between(start["next"], end["next"])
        cuts = split_by_weight([piece.weight_bytes for piece in pieces], parts=self._parallelism)
        return [_Pieces(pieces[begin:stop]) for begin, stop in cuts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a row for each piece; runs in a task."""
        assert isinstance(partition, _Pieces)
        yield as_frames(partition.pieces)

    def commit(self, end: dict[str, Any]) -> None:
        """Forget the names of files that were read and are gone, once there are many."""
        journal = self._journal
        if self._listed is not None and len(journal.locations) > 2 * len(self._listed) + _FORGET_FROM:
            journal.forget(before=end["next"], unless=self._listed)

    def stop(self) -> None:
        """Close the journal at the end of the query."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def as_frames(pieces: list[JournalEntry]) -> pa.RecordBatch:
    """Turn pieces into rows of `FRAMES`."""
    columns = [
        pa.repeat(PARTITION, len(pieces)),
        pa.array([piece.number for piece in pieces], pa.int64()),
        pa.array([piece.arrival_ns for piece in pieces], pa.int64()),
        pa.array([piece.format for piece in pieces], pa.string()),
        pa.array([piece.name for piece in pieces], pa.string()),
        pa.array([describe_piece(piece) for piece in pieces], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FRAMES)
