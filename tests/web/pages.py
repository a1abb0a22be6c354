"""Made-up incidents for the tests of pages."""

from __future__ import annotations

from typing import Any

from ledto.questions import Event, Missing
from ledto.web.gather import Incident, Ordering

MS = 1_000_000


def event(position: int, process: str, seq: int, ms: int | None, name: str, **more: Any) -> Event:
    """An event; ``sends`` or ``receives`` makes it one of a message, the rest are attributes."""
    sends, receives = more.pop("sends", None), more.pop("receives", None)
    kind = "send" if sends else "receive" if receives else "local"
    time = None if ms is None else ms * MS
    return Event(f"{process}:{seq}", process, seq, name, time, "", time or 0, kind, sends, receives, position, more)


def incident(**changes: Any) -> Incident:
    """A change in stock leads to a failure in orders; the clock of stock is 300 ms ahead, that of mail is late."""
    past = [
        event(10, "stock", 7, 1_280, "configuration loaded", severity="notice"),
        event(11, "stock", 8, 1_281, "released", sends="m1"),
        event(13, "orders", 3, 990, "released", receives="m1"),
    ]
    failure = event(15, "orders", 5, 1_000, "order failed", severity="error")
    shown = {
        "history": "out/history",
        "unit": "ns",
        "event": failure,
        "past": past,
        "causes": {13: [11]},
        "bystanders": [event(12, "mail", 2, 996, "newsletter sent")],
        "missing": [Missing("orders", 3, 5, 1), Missing(None, None, None, 1, "m0", "stock:7")],
        "ledger": {"reports": 10, "delivered": 7, "duplicate": 2, "quarantined": 1, "reasons": {"not-json": 1}},
        "orderings": [
            Ordering("wall clock", 7, 2, 3, 5, None),
            Ordering("cbd-0.1", 7, 1, None, None, {"p50": 30 * MS, "p95": 40 * MS, "p99": 50 * MS, "max": 60 * MS}),
        ],
    }
    return Incident(**(shown | changes))
