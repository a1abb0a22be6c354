"""A report as a record: one stamped message as the collector received it. `ledto.events.columns` has columns of them.

One literal record::

    Report(process=3, seq=17, r=120, c=2, kn=(4, 1, 0), arrival=127)

says: process 3 sent its 17th message when its clock read 120, with ``c = 2``; it knew of 4 events at reading 122 and of
1 at 121. The report arrived when the observer's own clock read 127.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_INT32 = (1 << 31) - 1
MAX_SEQ = (1 << 63) - 1
MAX_TIME = 1 << 60
"""Clock readings are within plus or minus this, so that adding delays to them cannot overflow 64 bits."""


@dataclass(frozen=True, slots=True)
class Report:
    """One stamped message; the fields mean the same as the columns in `Reports`.

    Raises `ValueError` for values that the columns could not hold, so that a record is accepted exactly if it is
    accepted as a row.
    """

    process: int
    """The sender, 0 or more."""
    seq: int
    """The message's number among its sender's messages, from 1."""
    r: int
    """The sender's physical clock at the send, in the policy's unit."""
    c: int
    """How far the largest clock reading that the sender knew of was ahead of r."""
    kn: tuple[int, ...]
    """``kn[i]`` is the stamp's ``kn[c - i]``: the elements in the order `less` compares them."""
    arrival: int
    """The observer's clock when the report arrived."""

    def __post_init__(self) -> None:
        _require("process", self.process, 0, MAX_INT32)
        _require("seq", self.seq, 1, MAX_SEQ)
        _require("r", self.r, -MAX_TIME, MAX_TIME)
        _require("c", self.c, 0, MAX_INT32)
        _require("arrival", self.arrival, -MAX_TIME, MAX_TIME)
        for count in self.kn:
            _require("an element of kn", count, 0, MAX_INT32)


def _require(name: str, value: int, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} of a report is an integer, not {value!r:.60}")
    if not least <= value <= most:
        raise ValueError(f"{name} of a report runs from {least} to {most}, not {value}")
