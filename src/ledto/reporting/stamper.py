"""Name a process, and stamp its events with a clock."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Any, Protocol, cast

from ledto.clocks import LamportClock, Stamp
from ledto.clocks.wire import check_name
from ledto.reporting.headers import Message

log = logging.getLogger("ledto.reporting")

_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


class Clock(Protocol):
    """A clock that stamps events: `LamportClock`, `HybridClock`, `VectorClock`, `BoundedClock`, or one of your own."""

    def local(self) -> Stamp: ...
    def send(self) -> Stamp: ...
    def receive(self, stamp: Any, /) -> Stamp: ...


class Stamper:
    """A clock that stamps no more events after it has failed once.

    Later stamps could sort an effect before its cause, or call the two concurrent. Messages still relate events without
    stamps.
    """

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock
        self.refusal = ""
        """The error of the clock, or empty."""

    @property
    def is_stamping(self) -> bool:
        """Return whether events still get stamps."""
        return self._clock is not None

    def stamp(self, kind: str, message: Message | None, *, unstamped: bool) -> Stamp | None:
        """Stamp an event; None after the clock has failed. Pass `unstamped` for a message whose cause is not known."""
        if self._clock is None:
            return None
        try:
            return _stamp_with(self._clock, kind, message, unstamped)
        except Exception as refusal:
            self._clock = None
            self.refusal = f"{type(refusal).__name__}: {refusal}"
            return None


def _stamp_with(clock: Clock, kind: str, message: Message | None, unstamped: bool) -> Stamp:
    takes_unstamped = getattr(clock, "accept_unstamped", False)
    if message is None:
        if unstamped and takes_unstamped:
            return clock.receive(None)
        return clock.send() if kind == "send" else clock.local()
    if message.stamp is not None:
        try:
            return clock.receive(message.stamp)
        except Exception:
            if not takes_unstamped:
                raise
    elif not takes_unstamped:
        raise ValueError("a message carries no stamp")
    return clock.receive(None)


def clock_maker(clock: Clock | Callable[[str], Clock] | None) -> Callable[[str], Clock] | None:
    """Return a function that makes a clock for the name of a process; None if `clock` is a clock already."""
    if clock is None:
        return LamportClock
    if isinstance(clock, type) or not hasattr(clock, "local"):
        return cast(Callable[[str], Clock], clock)
    return None


def full_name(process: str, incarnation: str | None) -> str:
    """Return ``PROCESS@INCARNATION``, or the bare name if the incarnation is empty. Choose one if it is None."""
    if incarnation is None:
        incarnation = "".join(secrets.choice(_LETTERS) for _ in range(12))
    name = f"{process}@{incarnation}" if incarnation else process
    check_name(process)
    check_name(name)
    return name


def name_of_clock(clock: object, process: str, incarnation: str | None) -> str:
    """Return the name that a clock was made with. Raises ValueError if it does not belong to this process."""
    if incarnation is not None:
        raise ValueError("a clock has its name already; leave out incarnation, or pass the clock's class instead")
    name = getattr(clock, "process", None)
    if not isinstance(name, str) or not (name == process or name.startswith(f"{process}@")):
        raise ValueError(
            f"the clock belongs to {name!r:.60}, not to {process!r:.60}; pass its class, and it gets the right name"
        )
    return name
