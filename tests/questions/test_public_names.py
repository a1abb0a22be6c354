"""The names users import: a rename or a removal must be a decision, not an accident."""

import subprocess
import sys
from types import ModuleType

import pytest

import ledto.history
import ledto.questions

QUESTIONS = [
    "Affected",
    "Answer",
    "Check",
    "Concurrent",
    "Cut",
    "Event",
    "Explanation",
    "Found",
    "History",
    "Impact",
    "MessageUnderWay",
    "Missing",
    "Numbered",
    "Order",
    "PathStep",
    "Possible",
    "Process",
    "ProcessList",
    "QuarantinedReport",
    "QuarantinedReports",
    "QueryResult",
    "RELATIONS",
    "Related",
    "Standing",
    "Why",
    "connect",
    "open_history",
    "views",
]
HISTORY = [
    "AmbiguousEvent",
    "BadCondition",
    "BadQuery",
    "DamagedHistory",
    "Draft",
    "EventNotFound",
    "HistoryError",
    "HistoryInUse",
    "HistoryReplaced",
    "NoHistory",
    "UnknownPolicy",
    "UnsupportedFormat",
]


@pytest.mark.parametrize(("package", "names"), [(ledto.questions, QUESTIONS), (ledto.history, HISTORY)])
def test_public_names_are_pinned(package: ModuleType, names: list[str]) -> None:
    """An upgrade must not break an import."""
    assert sorted(package.__all__) == sorted(names)
    assert all(hasattr(package, name) for name in names)
    assert not hasattr(package, "nothing")


def test_opening_a_history_is_the_first_thing_that_loads_anything() -> None:
    """An application that stamps events imports ledto, too, and must not pay for the history."""
    code = "import sys, ledto; ledto.open; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"numpy", "pyarrow", "duckdb", "ledto.history", "ledto.questions"}.isdisjoint(loaded)
