"""What commands print with ``--json``, apart from the answers to questions (`ledto.service.questions.documents`)."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ledto.history.manifest import Manifest, PolicySummary, WallClockSummary
from ledto.questions.provable import Provable


class _Printed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JSON object that has no other keys. One that is unset is left out."""

    def to_json(self) -> dict[str, Any]:
        """Give the document as `json.dumps` takes it."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


class ObservedDocument(Manifest, frozen=True, kw_only=True):
    """The history that `ledto observe` made."""

    format: int
    """The format number of the files."""
    provable: Provable
    history: str
    seconds: float
    """How long it took."""


class MappedDocument(_Printed, frozen=True, kw_only=True):
    """The mapping that `ledto map` drafted."""

    files: list[str]
    format: str
    """The format of the records."""
    records: int
    """How many records were looked at."""
    unread: int
    """How many of them could not be read."""
    missing: list[str]
    """What was not found; empty if the mapping can be used as it is."""
    mapping: str
    """The mapping, in TOML."""
    rows: list[dict[str, Any]]
    """The first rows that it makes, without columns that are null."""
    left_out: list[str]
    """Why other files are not among `files`, a sentence for each."""


class ServedDocument(_Printed, frozen=True, kw_only=True):
    """Where `ledto serve` listens, when it is ready."""

    http: str
    grpc: str | None
    """None if gRPC is turned off."""
    broker: str
    history: str
    broker_pid: int | None
    stream_pid: int | None


class ExportedDocument(_Printed, frozen=True, kw_only=True):
    """What `ledto export` wrote."""

    file: str | UnsetType = UNSET
    """Left out if the export went to stdout; the document then goes to stderr."""
    format: str
    times: str
    events: int
    processes: int
    computations: int
    arrows: int | UnsetType = UNSET
    arrows_left_out: int | UnsetType = UNSET
    """How many arrows would have pointed to an earlier time."""
    regex: str | UnsetType = UNSET
    """The expression for ShiViz."""
    delimiter: str | UnsetType = UNSET


class ReportedDocument(_Printed, frozen=True, kw_only=True):
    """The page that `ledto report` wrote."""

    file: str
    event: str
    """The id of the event."""
    causes: int
    """How many of its causes the page shows."""
    possible: int
    missing: int
    after_by_wall_clock: int
    """How many causes have a later wall time than the event."""


class SimulatedViolations(_Printed, frozen=True, kw_only=True):
    """Violations of causal order; docs/reproduce.md defines them. None: of a single run."""

    average_pct: float | None
    messages_pct: float | None
    pairs: float | None


class SimulatedDelays(_Printed, frozen=True, kw_only=True):
    """Ticks from arrival to delivery."""

    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class SimulatedMeasures(_Printed, frozen=True, kw_only=True):
    """What the runs of a simulation gave."""

    messages: float | None
    violations: SimulatedViolations
    delay: SimulatedDelays
    stamp_bytes: float | None


class SimulatedDocument(SimulatedMeasures, frozen=True, kw_only=True):
    """Means over the runs of simulated messages."""

    spread: SimulatedMeasures
    """Standard deviations of one run."""
    parameters: dict[str, Any]


PolicyDocument = msgspec.defstruct(
    "PolicyDocument",
    [(name, kind) for name, kind in get_type_hints(PolicySummary).items() if name != "files"],
    forbid_unknown_fields=True,
)
"""The deliveries under one policy, as in a manifest, without its files."""


class RedeliveredDocument(_Printed, frozen=True, kw_only=True):
    """A history that was delivered again."""

    history: str
    wall_clock: WallClockSummary
    policies: dict[str, PolicyDocument]  # type: ignore[valid-type]


class ReproducedChapter(_Printed, frozen=True, kw_only=True):
    """How many statements of a paper were met."""

    title: str
    met: int
    statements: int


class ReproducedDocument(_Printed, frozen=True, kw_only=True):
    """What `ledto reproduce` found and wrote."""

    report: str
    """The file REPORT.md."""
    seconds: float
    papers: dict[str, ReproducedChapter]
