"""Takes solved segments; gives a history: files that take effect all at once, and answers to questions about them.

::

    history = whence.open("shop.history")
    answer = history.why("shop:42", k=10)
    answer.events[-1]    # Event(id='cart:17', process='cart', seq=17, name='checkout', time=1700000000120000000, ...)

- `whence.history.draft`, `writing`, `storage`: a run in progress, its files, and the file systems they may live on.
- `whence.history.run`: a committed run, row group by row group.
- `whence.questions`: what a `History` answers.
- `whence.questions.sql`: the same history as views for DuckDB and Spark.

Names are loaded when they are used: tasks that only write need no DuckDB.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.history.draft import Draft
    from whence.history.errors import (
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
    from whence.questions.concurrent import Concurrent
    from whence.questions.cut import (Cut, MessageUnderWay)
    from whence.questions.missing import Missing
    from whence.questions.event import Event
    from whence.questions.explain import (Explanation, Related)
    from whence.questions.impact import (Affected, Impact)
    from whence.questions.history import (QuarantinedReport, Check, History, Process, open_history)
    from whence.questions.why import Why
    from whence.questions.path import PathStep
    from whence.questions.possible import Possible
    from whence.questions.relation import Numbered
    from whence.questions.standing import (RELATIONS, Standing)
    from whence.questions.sql import (connect, views)

__all__ = [
    "open_history",
    "History",
    "Event",
    "Why",
    "Missing",
    "Possible",
    "Impact",
    "Affected",
    "Related",
    "Standing",
    "Explanation",
    "PathStep",
    "Concurrent",
    "Cut",
    "MessageUnderWay",
    "Process",
    "Check",
    "QuarantinedReport",
    "RELATIONS",
    "Numbered",
    "connect",
    "views",
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
    "draft": ("Draft",),
    "errors": (*__all__[-9:], "HistoryError"),
    "sql": ("connect", "views"),
    "questions.history": ("open_history", "History", "Process", "Check", "QuarantinedReport"),
    "questions.event": ("Event",),
    "questions.explaining": ("Explanation", "Related"),
    "questions.past": ("Why",),
    "questions.doubts": ("Missing",),
    "questions.paths": ("PathStep",),
    "questions.possible": ("Possible",),
    "questions.standing": ("RELATIONS", "Standing"),
    "questions.future": ("Impact", "Affected"),
    "questions.concurrency": ("Concurrent",),
    "questions.cuts": ("Cut", "MessageUnderWay"),
    "questions.relating": ("Numbered",),
}


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"whence.history.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
