"""Take a committed history; give answers: what led to an event, what came of it, and how two events are related.

    >>> import ledto
    >>> history = ledto.open("shop.history")
    >>> answer = history.why("shop:2", k=10)
    >>> answer
    Why(shop:2 'order paid': 2 causes, complete)
    >>> answer.causes[-1]
    Event(id='cart:1', process='cart', seq=1, name='checkout', time=1700000000120000000)

There is one module for each question: `find`, `why`, `impact`, `concurrent`, `cut`, `relation`, `explain`, `order`,
`clocks`, `check` (with processes and quarantined reports), and `query`, which asks the views of `sql`. `History` in
`history` has a method for each. The other modules are what questions share: `answer` is the base of all answers, `locate`
and `ids` find the event that a name means, `where` reads conditions, `possible`, `missing` and `provable` are parts of
answers. Names are imported when they are used: tasks that only write a history need no DuckDB.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledto.questions.answer import Answer
    from ledto.questions.check import Check, Process, ProcessList, QuarantinedReport, QuarantinedReports
    from ledto.questions.concurrent import Concurrent
    from ledto.questions.cut import Cut, MessageUnderWay
    from ledto.questions.event import Event
    from ledto.questions.explain import Explanation, Related
    from ledto.questions.find import Found
    from ledto.questions.history import History, open_history
    from ledto.questions.impact import Affected, Impact
    from ledto.questions.missing import Missing
    from ledto.questions.order import Order
    from ledto.questions.path import PathStep
    from ledto.questions.possible import Possible
    from ledto.questions.query import QueryResult
    from ledto.questions.relation import Numbered
    from ledto.questions.sql import connect, views
    from ledto.questions.standing import RELATIONS, Standing
    from ledto.questions.why import Why

__all__ = [
    "open_history",
    "History",
    "Answer",
    "Event",
    "Found",
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
    "ProcessList",
    "Order",
    "QueryResult",
    "Check",
    "QuarantinedReport",
    "QuarantinedReports",
    "RELATIONS",
    "Numbered",
    "connect",
    "views",
]

_PLACES = {
    "questions.answer": ("Answer",),
    "questions.check": (
        "Check",
        "Process",
        "ProcessList",
        "QuarantinedReport",
        "QuarantinedReports",
    ),
    "questions.concurrent": ("Concurrent",),
    "questions.cut": (
        "Cut",
        "MessageUnderWay",
    ),
    "questions.event": ("Event",),
    "questions.explain": (
        "Explanation",
        "Related",
    ),
    "questions.find": ("Found",),
    "questions.history": (
        "History",
        "open_history",
    ),
    "questions.impact": (
        "Affected",
        "Impact",
    ),
    "questions.missing": ("Missing",),
    "questions.order": ("Order",),
    "questions.path": ("PathStep",),
    "questions.possible": ("Possible",),
    "questions.query": ("QueryResult",),
    "questions.relation": ("Numbered",),
    "questions.sql": (
        "connect",
        "views",
    ),
    "questions.standing": (
        "RELATIONS",
        "Standing",
    ),
    "questions.why": ("Why",),
}


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"ledto.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
