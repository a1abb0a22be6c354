"""The files of a history: their names, columns and encodings. One literal row of each table stands beside its schema.

::

    HISTORY/manifest.json                                    the commit point: names the run whose files count
    HISTORY/runs/<run>/segments-<sum>.parquet                one row a segment
    HISTORY/runs/<run>/processes-<sum>.parquet               one row a process
    HISTORY/runs/<run>/crossings-<sum>.parquet               messages from one segment to a later one
    HISTORY/runs/<run>/events-00000-<attempt>-<sum>.parquet  the events of segment 0, in history order
    HISTORY/runs/<run>/skeleton-00000-<attempt>-<sum>.parquet  who, and which earlier rows caused it
    HISTORY/runs/<run>/ids-00000-<attempt>-<sum>.index       where each of the source's own ids is
    HISTORY/runs/<run>/lines-00000-<attempt>-<sum>.npz       which lines go on from earlier segments, and to later ones
    HISTORY/runs/<run>/boundary-00001-<attempt>-<sum>.npz    what its processes knew when the segment began; positions
                                                             in it count from the start of the computation
    HISTORY/runs/<run>/aside-<attempt>-<sum>.parquet         reports that were set aside, and why

A file counts only if the manifest or the table of segments names it: tasks that ran twice leave others behind. A name ends
in a checksum of the file (`ledto.history.sealed`).
"""

from __future__ import annotations

import pyarrow as pa

FORMAT = 8
"""Of the manifest and of all files beside it. A reader refuses any other."""
MANIFEST = "manifest.json"
LOCK = "run.lock"
RUNS = "runs"
STAGING = "staging"
"""In a run's folder: reports that are dear to read twice, as Parquet, while the run is being made."""
BESIDE = ("broker", "subscriptions", "checkpoint", "checkpoint-files")
"""Folders of a live history that are not part of it: those of the service, and the journals of the stream."""
TABLES = ("segments", "processes", "crossings")
"""The small tables of a run: the manifest's ``tables`` names their files."""

EVENT_ROWS = 8_192
"""Rows of a row group of events: what a question reads to show one of them."""
SKELETON_ROWS = 65_536
"""Rows of a row group of the skeleton: what a sweep reads at a time."""

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
"""``"", "web", 17, null, "GET /", 1700000000000000000, 1700000000000000000, 0, "receive", null, "m-5", ...``. A correction
is what makes of a wall time one that respects causality; `clock_name` tells whose clock the time is from, if it is not the
process's own, `line` what the process was doing, and `missing` the causes that the event names and nobody reported.
Strings may come dictionary-encoded, and a source's further columns follow."""

COUNTED_BY = "nth"
"""An event's number within its process and segment: its seq, plus those before, where its source gave none."""
WRITTEN_BY = "segment"
"""The window that a segment was solved in."""
PLACED_BY = "placed_time"
"""Where causes that are only assumed matter: the causal time that they give, by which events stand in their order."""
INTERNAL = (COUNTED_BY, WRITTEN_BY, PLACED_BY)
"""Columns beside those of events that only readers of files see."""

EVENT_DICTIONARIES = ["computation", "process", "name", "kind", "clock_name", "line", "file"]
EVENT_DELTAS = ["seq", "time", "causal_time", "correction", "arrival", "place"]
EVENT_STATISTICS = ["seq", "time", "causal_time"]
"""Encodings by measurement, 500,000 rows with an id, a name and three attributes: 180 ms and 27 bytes a row; the
library's defaults take 350 ms and 38 bytes. Statistics of text would only make the files slower to open."""

SKELETON_CAUSES = pa.list_(pa.field("element", pa.uint32(), nullable=False))
"""Distances in rows back to each cause in the same segment, besides the process's own row before: 1.8 bytes an event
for both columns at 100 processes, by delta encoding."""

SKELETON_ASSUMED = "assumed"
"""A column of the skeleton, where there are such: how many of a row's causes, the last ones, are only assumed."""
SKELETON_TIED = "tied"
"""A column beside it: how many of these, again the last ones, are no answers, but come of events at one time that may have
happened in either order."""
SKELETON_FOLLOWS = "follows"
"""A column of the skeleton of a segment with lines: distances back to what a row follows in its own process. Without it
each row follows the one before in its process. Rows have even numbers here and their lists odd ones: row r is 2 r, and its
list 2 r + 1, so that 4 is the row two before this one, and 3 the list of that row (`ledto.causality.lines`)."""
LIST_REST, LIST_FIRST, LIST_LOW = LISTS = "list_rest", "list_first", "list_low"
"""Columns beside it, null where a row has no list: the distance to what the list holds besides the row, told likewise;
and distances in rows, to the first row with a list of the same front, and to the lowest row that the list holds."""

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
    ]
)
"""``1, 500000, 500000, [0, 1], [249000, 251000], [250100, 249900], [250101, 249901], ...``: the segment's processes by
their codes in `PROCESSES`, how many events each has in it and before it, and the seq of each one's first event in it."""

SEGMENT_FILES = ("events_file", "skeleton_file", "boundary_file", "ids_file", "lines_file")
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
"""``0, "", "web", null, 500100, 1700000000000000000, 1700003600000000000, true, 80000, null, 1200, null, null``;
dense: no seq is missing between the first and the last; `messages` counts events that send or receive; `first_hole` is
the number of the first event before which a report is missing, and `first_tainted` of the first that has such an event
in its past; `first_gone` is the number of the first event that may come after a report which was set aside or came late,
and `gone_why` tells why it was."""

ASIDE = pa.schema(
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
"""``"quarantined", "not-json: ...", "", null, "logs/a.jsonl", 17, "{oops"``; the outcome is duplicate or quarantined."""

CROSSINGS = pa.schema(
    [pa.field("effect", pa.int64(), nullable=False), pa.field("cause", pa.int64(), nullable=False)],
)
"""Positions of a receive and of the send it received, where they are in different segments; by effect."""


def run_folder(run: str) -> str:
    """The folder of a run, within the history."""
    return f"{RUNS}/{run}"


def segment_stem(kind: str, number: int, attempt: str) -> str:
    """What the name of one of a segment's files begins with; its checksum and suffix follow."""
    return f"{kind}-{number:05d}-{attempt}"
