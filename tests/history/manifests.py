"""Parts of manifests for tests: plain values where a test says nothing."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledto.history.manifest import (
    Description,
    Ledger,
    LogFiles,
    PolicySummary,
    StateFiles,
    Stream,
    StreamCounts,
    StreamDelays,
    WallClockSummary,
    read_manifest,
    write_manifest,
)
from ledto.history.store import Store


def description(**given: Any) -> Description:
    """What a run says of itself."""
    plain: dict[str, Any] = {
        "unit": "ticks",
        "eps": 0,
        "lag": 0,
        "lag_event": None,
        "inputs": (),
        "ledger": ledger(),
        "attributes": {},
        "native_columns": (),
        "has_ids": True,
        "given_seq": False,
        "quarantine_files": (),
        "channels": {},
        "policies": {},
        "wall_clock": WallClockSummary(0, None, {}, 0, 0, 0),
    }
    return Description(**(plain | given))


def ledger(delivered: int = 0, *, duplicate: int = 0, **reasons: int) -> Ledger:
    """So many reports, those that were quarantined by the code of their reason, with ``_`` for ``-``."""
    quarantined = sum(reasons.values())
    codes = {name.replace("_", "-"): count for name, count in reasons.items()}
    return Ledger(delivered + duplicate + quarantined, delivered, duplicate, quarantined, codes, 0)


def policy(name: str, *files: str) -> PolicySummary:
    """Deliveries in these files."""
    return PolicySummary(name, 1.0, 0, 0, "given", 1, None, "given", False, 0, 0, None, {}, {}, files)


def stream(version: int) -> Stream:
    """A stream with so many commits: of 10 reports 7 are delivered."""
    counts = StreamCounts(
        reports=10, duplicate=2, quarantined=1, late=1, messages=4, violations=0, delivered=7, waiting=0, ahead=0
    )
    delays = StreamDelays(1_500_000_000, None, 2_000_000_000, 3_000_000_000)
    files = StateFiles("closed", "carry", ())
    return Stream("exact", counts, delays, 5, {}, 1_700_000_000_000_000_000, LogFiles((), 7), version, files)


def rewrite(store: Store, **given: Any) -> None:
    """Let the manifest say otherwise."""
    write_manifest(store, replace(read_manifest(store), **given))
