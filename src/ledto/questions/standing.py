"""The relations of two events, as words and as the numbers of `History.relations`."""

from __future__ import annotations

from enum import StrEnum


class Standing(StrEnum):
    """The relation of one event to another. Compares equal to its word: ``== "before"``."""

    EQUAL = "equal"
    """They are the same event."""
    BEFORE = "before"
    """Recorded causes lead from the first to the second."""
    AFTER = "after"
    """Recorded causes lead from the second to the first."""
    CONCURRENT = "concurrent"
    """Neither can have led to the other."""
    POSSIBLE = "possible"
    """The one that is earlier in history order may have led to the other, but only through the shared state of a process,
    an assumed answer, or events at one time."""
    UNKNOWN = "unknown"
    """No path leads from one to the other, but missing reports might make one."""


RELATIONS = (
    *(Standing.EQUAL, Standing.BEFORE, Standing.AFTER, Standing.CONCURRENT),
    *(Standing.POSSIBLE, Standing.POSSIBLE, Standing.UNKNOWN),
)
"""The meaning of each number of `History.relations`. 4: the first may have led to the second; 5: the second to the first."""
EQUAL, BEFORE, AFTER, CONCURRENT, POSSIBLY_BEFORE, POSSIBLY_AFTER, UNKNOWN = range(len(RELATIONS))
"""The numbers, by name."""
