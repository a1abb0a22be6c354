"""The answers to how one event stands to another."""

from __future__ import annotations

from enum import StrEnum


class Standing(StrEnum):
    """How one event stands to another by what a history has recorded. Compares with its word: ``== "before"``."""

    EQUAL = "equal"
    """They are one event."""
    BEFORE = "before"
    """What is recorded leads from the first to the second."""
    AFTER = "after"
    """What is recorded leads from the second to the first."""
    CONCURRENT = "concurrent"
    """Neither can have led to the other."""
    POSSIBLE = "possible"
    """The one that stands earlier in history order may have led to the other: only through the shared state of a process, or
    by an answer that is assumed."""
    UNKNOWN = "unknown"
    """Nothing leads from one to the other, but reports are missing that might."""


RELATIONS = (
    *(Standing.EQUAL, Standing.BEFORE, Standing.AFTER, Standing.CONCURRENT),
    *(Standing.POSSIBLE, Standing.POSSIBLE, Standing.UNKNOWN),
)
"""What the numbers that `History.relations` gives mean. 4: the first possibly led to the second; 5: the other way round."""
EQUAL, BEFORE, AFTER, CONCURRENT, POSSIBLY_BEFORE, POSSIBLY_AFTER, UNKNOWN = range(len(RELATIONS))
"""Those numbers."""
