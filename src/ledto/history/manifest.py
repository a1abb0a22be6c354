"""The manifest: one JSON file whose replacement makes a run count. Whatever it does not name is not part of the history.

It begins with the number of the format and ends with a checksum of the text before it: ``"checksum": "7b3f00c2"``. All that
is between is a `Manifest`, for histories made at once and for those of streams alike.
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


class _Said(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a manifest. Members without a default must be there, and no others may be."""


class Input(_Said, frozen=True):
    """A file that was read."""

    file: str
    bytes: int
    format: str


class Ledger(_Said, frozen=True):
    """What became of the reports: ``reports = delivered + duplicate + quarantined``."""

    reports: int
    delivered: int
    duplicate: int
    quarantined: int
    reasons: dict[str, int]
    """By code: reports that were quarantined for it."""
    missing_causes: int
    """Events in the history that name a cause which nobody reported."""


class PolicySummary(_Said, frozen=True):
    """Deliveries under one policy, what they were made with, and what they came to."""

    policy: str
    phi: float | None
    eps: int
    delta: int
    delta_from: str
    tick: int
    elements: int | None
    arrival: str
    """Where the times of arrival are from."""
    as_known: bool
    late: int
    undelivered: int
    undelivered_reason: str | None
    violations: dict[str, Any]
    """How the order of deliveries contradicts the causal one; empty where nothing was delivered."""
    delays: dict[str, Any]
    files: tuple[str, ...]
    """By segment."""


class WallClockSummary(_Said, frozen=True, omit_defaults=True):
    """How the order by wall time contradicts the causal one."""

    undelivered: int
    undelivered_reason: str | None
    violations: dict[str, Any]
    messages_before_cause: int
    ties: int
    earlier_by: int
    between_clocks: dict[str, Any] | None = None


class SameClock(_Said, frozen=True):
    """Clocks that cannot be told apart (`ledto.skew.same_clocks.SameClocks`)."""

    names: tuple[str, ...]
    apart: int
    by_answers: bool


class ClocksSummary(_Said, frozen=True):
    """A summary of the clocks, and the files with all of them."""

    clocks: int
    groups: int
    verdicts: dict[str, int]
    broken: tuple[str, ...]
    eps: dict[str, Any]
    message_delays: dict[str, Any]
    report_delays: dict[str, Any]
    files: dict[str, str]
    same: tuple[SameClock, ...] = ()


class TableFiles(_Said, frozen=True):
    """The files of the small tables (`layout.TABLES`)."""

    segments: str
    processes: str
    crossings: str


class LogFile(_Said, frozen=True):
    """A file of a stream's log: deliveries ``first`` to ``last``."""

    file: str
    first: int
    last: int
    size: int
    """How often it was merged."""


class LogFiles(_Said, frozen=True):
    """The files of a stream's log, oldest first, and the number of the last delivery."""

    files: tuple[LogFile, ...]
    last: int


class StreamCounts(_Said, frozen=True):
    """What became of the reports of a stream so far, under the policy of its log."""

    reports: int
    duplicate: int
    quarantined: int
    late: int
    messages: int
    violations: int
    delivered: int
    waiting: int
    ahead: int


class StreamDelays(_Said, frozen=True):
    """How long deliveries waited, in nanoseconds; None where nothing was delivered."""

    p50: int | None
    p95: int | None
    p99: int | None
    max: int | None


class StateFiles(_Said, frozen=True):
    """The files from which the writer of a stream goes on."""

    closed: str
    carry: str
    tail: tuple[str, ...]


class Stream(_Said, frozen=True):
    """How far a stream is: only live histories have one."""

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


class Description(_Said, frozen=True, kw_only=True, omit_defaults=True):
    """What a run says of itself before it is committed."""

    unit: str
    eps: int
    lag: int
    lag_event: str | None
    inputs: tuple[Input, ...]
    ledger: Ledger
    attributes: tuple[str, ...]
    native_columns: tuple[str, ...]
    has_ids: bool
    given_seq: bool
    """Whether the source numbered all events."""
    aside_files: tuple[str, ...]
    channels: dict[str, int]
    policies: dict[str, PolicySummary]
    wall_clock: WallClockSummary
    clocks: ClocksSummary | None = None


class Manifest(Description, frozen=True, kw_only=True):
    """A run that counts: what it says of itself, its sizes, and where its files are."""

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
        """Complete a description."""
        return cls(**{**msgspec.structs.asdict(description), **more})

    @property
    def version(self) -> tuple[str, int]:
        """The run and the number of its commit: what changes whenever files of the history may go."""
        return self.run, 0 if self.stream is None else self.stream.version

    def files(self) -> set[str]:
        """List the files of the run that the manifest itself names: all but those of the segments."""
        named = {self.tables.segments, self.tables.processes, self.tables.crossings, *self.aside_files}
        named.update(name for policy in self.policies.values() for name in policy.files)
        if self.clocks is not None:
            named.update(self.clocks.files.values())
        if self.stream is not None:
            state = self.stream.files
            named.update((state.closed, state.carry, *state.tail), (each.file for each in self.stream.log.files))
        return named

    def to_json(self) -> dict[str, Any]:
        """Give what is written, apart from the checksum."""
        return {"format": layout.FORMAT, **to_json(self)}


def to_json(part: Struct | dict[str, PolicySummary]) -> dict[str, Any]:
    """Give a part of a manifest as `json.dumps` takes it."""
    built: dict[str, Any] = msgspec.to_builtins(part)
    return built


def read_manifest(store: Store) -> Manifest:
    """Read the manifest of the run that counts.

    Raises `NoHistory` where there is none, `UnsupportedFormat` for another version's, and `DamagedHistory`.
    """
    place = store.place(layout.MANIFEST)
    try:
        data = store.read(layout.MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise NoHistory(_what_is_there(store)) from None
    except OSError as failure:
        raise NoHistory(f"{place} cannot be read: {failure}") from None
    try:
        said = json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise damaged(place, f"it is not JSON ({fault})") from None
    seal = _CHECKSUM.search(data)
    sealed = seal is not None and seal.end() == len(data)
    if seal is not None and sealed and crc32(data[: seal.start()]) != int(seal[1], 16):
        raise damaged(place, "it is not as it was written")
    written = said.get("format") if isinstance(said, dict) else None
    if not isinstance(written, int):
        raise DamagedHistory(f"{place} is no manifest of a history: it has no format number")
    if written != layout.FORMAT:
        raise UnsupportedFormat(
            f"{place} has format {written}, and this version of ledto reads format {layout.FORMAT}: "
            + ("install a newer ledto" if written > layout.FORMAT else "make the history again with ledto observe")
        )
    if not sealed:
        raise damaged(place, "its end is not the one that was written")
    members = {name: value for name, value in said.items() if name not in ("format", "checksum")}
    try:
        return msgspec.convert(members, Manifest)
    except msgspec.ValidationError as fault:
        raise DamagedHistory(
            f"{place} is not a manifest as this version of ledto writes it ({fault}): "
            "make the history again with ledto observe"
        ) from None


def write_manifest(store: Store, manifest: Manifest) -> None:
    """Replace the manifest, atomically."""
    data = json.dumps(manifest.to_json(), indent=2, ensure_ascii=False).removesuffix("\n}").encode()
    store.write(layout.MANIFEST, b'%b,\n  "checksum": "%08x"\n}\n' % (data, crc32(data)))


def _what_is_there(store: Store) -> str:
    if not store.exists(""):
        return f"there is no history at {store}: it does not exist. Make one with ledto observe LOGS --to {store}"
    if store.exists(layout.RUNS):
        return (
            f"the history at {store} was never finished: a run was interrupted or is still at work. "
            f"Wait for it, or start it again with ledto observe LOGS --to {store}"
        )
    return f"{store} is no history: it has no {layout.MANIFEST}. Make one with ledto observe LOGS --to FOLDER"
