"""Names of what came late, which nobody's own name can be taken for.

A process may be called anything, ``t (late)`` included. One whose own name ends like a name that is given here is
told as ``t (late) (reported)``, so that no two share a name.
"""

from __future__ import annotations

import re

_GIVEN = re.compile(r" \((?:late|late \d+|reported)\)")


def own_name(name: str) -> str:
    """What a process goes by: its own name, if that cannot be taken for another's."""
    start = name.rfind(" (")
    return f"{name} (reported)" if start >= 0 and _GIVEN.fullmatch(name, start) else name


def late_name(name: str, number: int) -> str:
    """What the given late part of it goes by, from 1 on; its own name for part 0."""
    if number == 0:
        return own_name(name)
    return f"{name} (late)" if number == 1 else f"{name} (late {number})"
