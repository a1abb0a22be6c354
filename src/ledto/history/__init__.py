"""Takes solved segments; gives the files of a history, which take effect all at once, and reads them again.

- `draft`, `write`, `store`: a run in progress, its files, and the file systems they may live on.
- `run`: a committed run, read row group by row group.
- `window`: from the reports of a window of time to a segment.
- `deliver`, `clocks`: what a second pass over the segments makes.

Questions are asked through `ledto.questions`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledto.history.draft import Draft
    from ledto.history.errors import (
        AmbiguousEvent,
        BadCondition,
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
    "UnknownPolicy",
]

_PLACES = {
    "history.draft": ("Draft",),
    "history.errors": (
        "AmbiguousEvent",
        "BadCondition",
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
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"ledto.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
