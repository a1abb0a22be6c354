"""Read and write the manifest: one JSON file. Replacing it commits a run. Files that it does not name do not count.

It begins with the format number and ends with a checksum of the text before: ``"checksum": "7b3f00c2"``. Between them are
the fields of a `Manifest`, both for histories made at once and for those of streams.
"""

from __future__ import annotations

import json
import re
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct

from ledto.history import layout
from ledto.history.errors import DamagedHistory, NoHistory, UnsupportedFormat
from ledto.history.sealed import damaged
from ledto.history.store import Store

_CHECKSUM = re.compile(rb',\n  "checksum": "([0-9a-f]{8})"\n\}\n')


class _Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a manifest. Reading refuses a missing member without a default, and an unknown member."""


class Input(_Part, frozen=True):
    """A file that was read."""

    file: str
    bytes: int
    format: str


class Ledger(_Part, frozen=True):
    """Where the reports went: ``reports = delivered + duplicate + quarantined``."""

    reports: int
    delivered: int
    duplicate: int
    quarantined: int
    reasons: dict[str, int]
    """The number of quarantined reports, by the code of the reason."""
    missing_causes: int
    """Events in the history that name a cause which nobody reported."""


class PolicySummary(_Part, frozen=True):
    """The deliveries under one policy: its settings, and counts. Times are in the history's unit."""

    policy: str
    phi: float | None
    eps: int
    delta: int | None
    """How long a report takes at most; None if it was not given and no report says when it arrived."""
    delta_from: str
    """Where delta comes from, or why there is none."""
    tick: int
    elements: int | None
    arrival: str
    """Where the arrival times come from: "given", or assumed for some or all events."""
    as_known: bool
    """Whether only causes counted whose reports had come by then, as in a live history."""
    late: int
    """Events whose report arrived after the event was due."""
    undelivered: int
    undelivered_reason: str | None
    violations: dict[str, Any]
    """How often the order of deliveries contradicts the causal order; empty if nothing was delivered."""
    delays: dict[str, Any]
    """How long events waited for their delivery."""
    files: tuple[str, ...]
    """One file for each segment."""


class WallClockSummary(_Part, frozen=True, omit_defaults=True):
    """How often the order by wall time contradicts the causal order."""

    undelivered: int
    undelivered_reason: str | None
    violations: dict[str, Any]
    messages_before_cause: int
    """Messages whose receive has an earlier time than their send."""
    ties: int
    """Messages whose receive has the same time as their send."""
    earlier_by: int
    """The most by which a receive is earlier than its send, in the history's unit."""
    between_clocks: dict[str, Any] | None = None
    """The same by pair of clocks; None if clocks were not measured."""


class SameClock(_Part, frozen=True):
    """Names that may belong to one clock (`ledto.skew.same_clocks.SameClocks`)."""

    names: tuple[str, ...]
    apart: int
    by_answers: bool


class ClocksSummary(_Part, frozen=True):
    """How wrong the clocks are, in short, and the files that have every clock."""

    clocks: int
    groups: int
    verdicts: dict[str, int]
    broken: tuple[str, ...]
    eps: dict[str, Any]
    message_delays: dict[str, Any]
    report_delays: dict[str, Any]
    files: dict[str, str]
    same: tuple[SameClock, ...] = ()


class TableFiles(_Part, frozen=True):
    """The files of the small tables (`layout.TABLES`)."""

    segments: str
    processes: str
    crossings: str


class LogFile(_Part, frozen=True):
    """A file of a stream's log, with the deliveries numbered ``first`` to ``last``."""

    file: str
    first: int
    last: int
    size: int
    """How often the file was merged from smaller ones."""


class LogFiles(_Part, frozen=True):
    """The files of a stream's log, oldest first, and the number of the last delivery."""

    files: tuple[LogFile, ...]
    last: int


class StreamCounts(_Part, frozen=True):
    """Where the reports of a stream went so far, under the policy of its log."""

    reports: int
    duplicate: int
    quarantined: int
    late: int
    """Events whose report arrived after the event was due; they are delivered at once."""
    messages: int
    violations: int
    delivered: int
    waiting: int
    ahead: int


class StreamDelays(_Part, frozen=True):
    """How long deliveries waited, in nanoseconds; None if nothing was delivered."""

    p50: int | None
    p95: int | None
    p99: int | None
    max: int | None


class StateFiles(_Part, frozen=True):
    """The files from which the writer of a stream continues after a restart."""

    closed: str
    carry: str
    tail: tuple[str, ...]


class Stream(_Part, frozen=True):
    """How far a stream has come. Only live histories have one."""

    policy: str
    counts: StreamCounts
    delay_ns: StreamDelays
    now: int
    positions: dict[str, int]
    updated: int
    log: LogFiles
    version: int
    """The number of the commit."""
    files: StateFiles


class Description(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """What a manifest says of a run that is known before the commit."""

    unit: str
    eps: int
    lag: int
    lag_event: str | None
    inputs: tuple[Input, ...]
    ledger: Ledger
    attributes: dict[str, str]
    """The attributes that occur, with their types (`ledto.history.attribute_types`), sorted by name."""
    native_columns: tuple[str, ...]
    has_ids: bool
    given_seq: bool
    """Whether the sources gave every event a number."""
    quarantine_files: tuple[str, ...]
    channels: dict[str, int]
    policies: dict[str, PolicySummary]
    wall_clock: WallClockSummary
    clocks: ClocksSummary | None = None


class Manifest(Description, frozen=True, kw_only=True):
    """A committed run: its description, its sizes, and the names of its files."""

    run: str
    created: str
    events: int
    segments: int
    processes: int
    computations: int
    tables: TableFiles
    stream: Stream | None = None

    @classmethod
    def of(cls, description: Description, **more: Any) -> Manifest:
        """Make a manifest from a description and the other fields."""
        return cls(**{**msgspec.structs.asdict(description), **more})

    @property
    def version(self) -> tuple[str, int]:
        """The run and the number of its commit. It changes whenever files of the history may be deleted."""
        return self.run, 0 if self.stream is None else self.stream.version

    def files(self) -> set[str]:
        """List the files of the run that the manifest itself names: all but those of the segments."""
        named = {self.tables.segments, self.tables.processes, self.tables.crossings, *self.quarantine_files}
        named.update(name for policy in self.policies.values() for name in policy.files)
        if self.clocks is not None:
            named.update(self.clocks.files.values())
        if self.stream is not None:
            state = self.stream.files
            named.update((state.closed, state.carry, *state.tail), (log.file for log in self.stream.log.files))
        return named

    def to_json(self) -> dict[str, Any]:
        """Give all that is written but the checksum."""
        return {"format": layout.FORMAT, **to_json(self)}


def to_json(part: Struct | dict[str, PolicySummary]) -> dict[str, Any]:
    """Give a part of a manifest as `json.dumps` takes it."""
    built: dict[str, Any] = msgspec.to_builtins(part)
    return built


def read_manifest(store: Store) -> Manifest:
    """Read the manifest of a history.

    Raises `NoHistory` if there is none, `UnsupportedFormat` if another version of ledto wrote it, and `DamagedHistory`.
    """
    place = store.place(layout.MANIFEST)
    try:
        data = store.read(layout.MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise NoHistory(_why_no_history(store)) from None
    except OSError as failure:
        raise NoHistory(f"{place} cannot be read: {failure}") from None
    try:
        members = json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise damaged(place, f"it is not JSON ({fault})") from None
    seal = _CHECKSUM.search(data)
    sealed = seal is not None and seal.end() == len(data)
    if seal is not None and sealed and crc32(data[: seal.start()]) != int(seal[1], 16):
        raise damaged(place, "it is not as it was written")
    format_number = members.get("format") if isinstance(members, dict) else None
    if not isinstance(format_number, int):
        raise damaged(place, "it has no format number")
    if format_number != layout.FORMAT:
        is_newer = format_number > layout.FORMAT
        raise UnsupportedFormat(
            f"{place} has format {format_number}, and this version of ledto reads format {layout.FORMAT}: "
            + ("install a newer ledto" if is_newer else "make the history again with ledto observe")
        )
    if not sealed:
        raise damaged(place, "its end is not the one that was written")
    fields = {name: value for name, value in members.items() if name not in ("format", "checksum")}
    try:
        return msgspec.convert(fields, Manifest)
    except msgspec.ValidationError as fault:
        raise DamagedHistory(
            f"{place} is not a manifest as this version of ledto writes it ({fault}): "
            "make the history again with ledto observe"
        ) from None


def write_manifest(store: Store, manifest: Manifest) -> None:
    """Replace the manifest, atomically."""
    data = json.dumps(manifest.to_json(), indent=2, ensure_ascii=False).removesuffix("\n}").encode()
    store.write(layout.MANIFEST, b'%b,\n  "checksum": "%08x"\n}\n' % (data, crc32(data)))


def _why_no_history(store: Store) -> str:
    """Say why a folder without a manifest holds no history, and what to do."""
    if not store.exists(""):
        return f"there is no history at {store}: it does not exist. Make one with ledto observe LOGS --to {store}"
    if store.exists(layout.RUNS):
        return (
            f"the history at {store} was never finished: a run was interrupted or is still at work. "
            f"Wait for it, or start it again with ledto observe LOGS --to {store}"
        )
    return f"{store} is no history: it has no {layout.MANIFEST}. Make one with ledto observe LOGS --to FOLDER"
