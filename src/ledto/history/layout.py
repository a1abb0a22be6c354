"""Define the files of a history: their names, columns and encodings. One literal row of each table is below its schema.

::

    HISTORY/manifest.json                                    the commit point: names the run whose files count
    HISTORY/runs/<run>/segments-<sum>.parquet                a row for each segment
    HISTORY/runs/<run>/processes-<sum>.parquet               a row for each process
    HISTORY/runs/<run>/crossings-<sum>.parquet               messages from one segment to a later one
    HISTORY/runs/<run>/events-00000-<attempt>-<sum>.parquet  the events of segment 0, in history order
    HISTORY/runs/<run>/skeleton-00000-<attempt>-<sum>.parquet  the process of each event, and the earlier rows that caused it
    HISTORY/runs/<run>/ids-00000-<attempt>-<sum>.index       an index from the source's own ids to rows
    HISTORY/runs/<run>/words-00000-<attempt>-<sum>.index     an index from words of names and attributes to row groups
    HISTORY/runs/<run>/lines-00000-<attempt>-<sum>.npz       which lines continue from earlier segments, and into later ones
    HISTORY/runs/<run>/boundary-00001-<attempt>-<sum>.npz    what the processes knew when the segment began; its positions
                                                             count from the start of the computation
    HISTORY/runs/<run>/quarantine-<attempt>-<sum>.parquet    reports that were quarantined, with the reasons

A file belongs to the history only if the manifest or the table of segments names it: a task that runs twice leaves other
files. A name ends in a checksum of the file (`ledto.history.sealed`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

FORMAT = 10
"""The format number of the manifest and of all files beside it. A reader refuses any other."""
MANIFEST = "manifest.json"
LOCK = "run.lock"
RUNS = "runs"
STAGING = "staging"
"""A folder in a run's folder, until the run is committed: reports that take long to read, as Parquet."""
BESIDE = ("broker", "subscriptions", "checkpoint", "checkpoint-files")
"""Folders beside a live history that are not part of it: those of the service, and the journals of the stream."""
TABLES = ("segments", "processes", "crossings")
"""The small tables of a run. The manifest's ``tables`` names their files."""

EVENT_ROWS = 8_192
"""Rows of a row group of events. A question reads one row group to show an event."""
SKELETON_ROWS = 65_536
"""Rows of a row group of the skeleton. A search reads one row group at a time."""

EVENTS = pa.schema(
    [
        pa.field("computation", pa.string(), nullable=False),
        pa.field("process", pa.string(), nullable=False),
        pa.field("seq", pa.int64()),
        pa.field("id", pa.string()),
        pa.field("name", pa.string()),
        pa.field("time", pa.int64()),
        pa.field("causal_time", pa.int64()),
        pa.field("correction", pa.int64()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("sends", pa.string()),
        pa.field("receives", pa.string()),
        pa.field("arrival", pa.int64()),
        pa.field("attributes", pa.string()),
        pa.field("error", pa.bool_()),
        pa.field("stamp", pa.string()),
        pa.field("clock_name", pa.string()),
        pa.field("line", pa.string()),
        pa.field("missing", pa.list_(pa.string())),
        pa.field("file", pa.string()),
        pa.field("place", pa.int64()),
    ]
)
"""``"", "web", 17, null, "GET /", 1700000000000000000, 1700000000000000000, 0, "receive", null, "m-5", ...``.

`correction` is what must be added to the wall time so that it respects causality. `clock_name` names the clock of the time,
if that is not the process's own; `line` names what the process was doing; `missing` lists the causes that the event names
and nobody reported. Strings may be dictionary-encoded. The source's own columns follow these."""

COUNTED_BY = "nth"
"""An event's number within its process and segment. Added to the events before, it is the seq where the source gave none."""
WRITTEN_BY = "segment"
"""The window that a segment was solved in."""
PLACED_BY = "placed_time"
"""The causal time by which events are sorted, where causes that are only assumed make it differ from ``causal_time``."""
INTERNAL = (COUNTED_BY, WRITTEN_BY, PLACED_BY)
"""Columns that only readers of the files see; questions do not show them."""

EVENT_DICTIONARIES = ["computation", "process", "name", "kind", "clock_name", "line", "file"]
EVENT_DELTAS = ["seq", "time", "causal_time", "correction", "arrival", "place"]
EVENT_STATISTICS = ["seq", "time", "causal_time"]
"""Encodings were chosen by measuring 500,000 rows with an id, a name and three attributes: 180 ms and 27 bytes for each
row; the library's defaults take 350 ms and 38 bytes. Statistics of text would only make the files slower to open."""

SKELETON_CAUSES = pa.list_(pa.field("element", pa.uint32(), nullable=False))
"""Distances in rows back to each cause in the same segment, besides the row before in the same process. With delta
encoding, both columns together take 1.8 bytes for each event at 100 processes."""

SKELETON_ASSUMED = "assumed"
"""An optional column of the skeleton: how many of a row's causes, counted from the last, are only assumed."""
SKELETON_TIED = "tied"
"""An optional column of the skeleton: how many of these, again counted from the last, are not answers. They come from
events at one time, which may have happened in either order."""
SKELETON_FOLLOWS = "follows"
"""A column of the skeleton of a segment with lines: distances from the reference of a row to the references that it follows
in its own process (`ledto.causality.lines`). 4 is the row two before this one, and 3 is the list of that row. Without
this column, each row follows the row before in its process."""
LIST_REST, LIST_FIRST, LIST_LOW = LISTS = "list_rest", "list_first", "list_low"
"""Columns of the skeleton of a segment with lines, null where a row has no list: the distance to the reference of what the
list holds besides the row; and distances in rows, to the first row with a list of the same front, and to the lowest row
that the list holds."""

SEGMENTS = pa.schema(
    [
        pa.field("number", pa.int32(), nullable=False),
        pa.field("first_position", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("processes", pa.list_(pa.int32()), nullable=False),
        pa.field("counts", pa.list_(pa.int64()), nullable=False),
        pa.field("before", pa.list_(pa.int64()), nullable=False),
        pa.field("first_seq", pa.list_(pa.int64()), nullable=False),
        pa.field("first_causal_time", pa.int64(), nullable=False),
        pa.field("last_causal_time", pa.int64(), nullable=False),
        pa.field("starts_computation", pa.bool_(), nullable=False),
        pa.field("events_file", pa.string(), nullable=False),
        pa.field("skeleton_file", pa.string(), nullable=False),
        pa.field("boundary_file", pa.string()),
        pa.field("ids_file", pa.string()),
        pa.field("lines_file", pa.string()),
        pa.field("words_file", pa.string()),
    ]
)
"""``1, 500000, 500000, [0, 1], [249000, 251000], [250100, 249900], [250101, 249901], ...``. The lists have an entry for each
process of the segment: its code in `PROCESSES`, its events in the segment and before it, and the seq of its first event in
the segment."""

SEGMENT_FILES = ("events_file", "skeleton_file", "boundary_file", "ids_file", "lines_file", "words_file")
"""Columns of `SEGMENTS` that name files."""

PROCESSES = pa.schema(
    [
        pa.field("code", pa.int32(), nullable=False),
        pa.field("computation", pa.string(), nullable=False),
        pa.field("process", pa.string(), nullable=False),
        pa.field("clock_name", pa.string()),
        pa.field("events", pa.int64(), nullable=False),
        pa.field("first_time", pa.int64()),
        pa.field("last_time", pa.int64()),
        pa.field("dense_seq", pa.bool_(), nullable=False),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("first_hole", pa.int64()),
        pa.field("first_tainted", pa.int64()),
        pa.field("first_gone", pa.int64()),
        pa.field("gone_why", pa.string()),
    ]
)
"""``0, "", "web", null, 500100, 1700000000000000000, 1700003600000000000, true, 80000, null, 1200, null, null``.

`dense_seq`: no seq is missing between the first and the last. `messages` counts events that send or receive. `first_hole`
is the number of the first event before which a report is missing; `first_tainted` that of the first event with such an
event in its past; `first_gone` that of the first event that may come after a report which was quarantined or came late, and
`gone_why` is the reason for that."""

QUARANTINE = pa.schema(
    [
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("computation", pa.string()),
        pa.field("process", pa.string()),
        pa.field("file", pa.string()),
        pa.field("place", pa.int64()),
        pa.field("text", pa.string()),
    ]
)
"""``"quarantined", "not-json: ...", "", null, "logs/a.jsonl", 17, "{oops"``. The outcome is duplicate or quarantined."""

CROSSINGS = pa.schema(
    [pa.field("effect", pa.int64(), nullable=False), pa.field("cause", pa.int64(), nullable=False)],
)
"""``500123, 499876``: positions of a receive and of its send, if they are in different segments. Sorted by effect."""


def run_folder(run: str) -> str:
    """Give the folder of a run, within the history."""
    return f"{RUNS}/{run}"


def segment_stem(kind: str, number: int, attempt: str) -> str:
    """Give the start of the name of one of a segment's files. The checksum and the suffix follow."""
    return f"{kind}-{number:05d}-{attempt}"


def find_history_around(folder: Path) -> Path | None:
    """Find the history that a folder is, or is in, through links as well; None if there is none."""
    # Not `Path.resolve`, which raises for links in a circle.
    real = Path(os.path.realpath(folder))
    for around in (real, *real.parents):
        # Other programs write a manifest.json, too.
        if (around / RUNS).is_dir() and any((around / name).is_file() for name in (MANIFEST, LOCK)):
            return around
    return None
