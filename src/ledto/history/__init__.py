"""Write the files of a history, commit them all at once, and read them again.

Take solved segments (`ledto.history.window`); give files. `layout` has their columns and one literal row of each. A row of
``events-00003-....parquet``::

    {"computation": "", "process": "web", "seq": 17, "time": 1700000000000000000, "kind": "receive", "receives": "m-5", ...}

- `draft`, `write`, `store`: a run in progress, its files, and the file systems that they may be on.
- `run`: a committed run, read row group by row group.
- `window`: solves the reports of one window of time, and makes a segment of them.
- `deliver`, `clocks`: a second pass over the segments, for deliveries and for the errors of clocks.

`ledto.questions` answers questions about a history.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledto.history.draft import Draft
    from ledto.history.errors import (
        AmbiguousEvent,
        BadCondition,
        BadQuery,
        DamagedHistory,
        EventNotFound,
        HistoryError,
        HistoryInUse,
        HistoryReplaced,
        NoHistory,
        UnknownPolicy,
        UnsupportedFormat,
    )

__all__ = [
    "Draft",
    "HistoryError",
    "NoHistory",
    "DamagedHistory",
    "UnsupportedFormat",
    "HistoryReplaced",
    "HistoryInUse",
    "EventNotFound",
    "AmbiguousEvent",
    "BadCondition",
    "BadQuery",
    "UnknownPolicy",
]

_MODULES = {
    "history.draft": ("Draft",),
    "history.errors": (
        "AmbiguousEvent",
        "BadCondition",
        "BadQuery",
        "DamagedHistory",
        "EventNotFound",
        "HistoryError",
        "HistoryInUse",
        "HistoryReplaced",
        "NoHistory",
        "UnknownPolicy",
        "UnsupportedFormat",
    ),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"ledto.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
