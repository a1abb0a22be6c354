"""The names users import: a rename or a removal must be a decision, not an accident."""

import subprocess
import sys

import ledto.history

NAMES = [
    "Affected",
    "AmbiguousEvent",
    "Aside",
    "BadCondition",
    "Check",
    "Concurrent",
    "Cut",
    "DamagedHistory",
    "Draft",
    "Event",
    "EventNotFound",
    "Explanation",
    "History",
    "HistoryError",
    "HistoryInUse",
    "HistoryReplaced",
    "Impact",
    "Message",
    "Missing",
    "NoHistory",
    "Numbered",
    "Possible",
    "Process",
    "RELATIONS",
    "Related",
    "Standing",
    "Step",
    "UnknownPolicy",
    "UnsupportedFormat",
    "Why",
    "connect",
    "open_history",
    "views",
]


def test_public_names_are_pinned() -> None:
    """An upgrade must not break an import."""
    assert sorted(ledto.history.__all__) == sorted(NAMES)
    assert all(hasattr(ledto.history, name) for name in NAMES)
    assert not hasattr(ledto.history, "nothing")


def test_opening_a_history_is_the_first_thing_that_loads_anything() -> None:
    """An application that stamps events imports ledto, too, and must not pay for the history."""
    code = "import sys, ledto; ledto.open; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"numpy", "pyarrow", "duckdb", "ledto.history"}.isdisjoint(loaded)
