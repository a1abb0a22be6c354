"""The name of a process, and the clock that stamps its events."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Any, Protocol, cast

from whence.clocks import LamportClock, Stamp
from whence.clocks.wire import check_name
from whence.reporting.carriers import Message

log = logging.getLogger("whence.reporting")

_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


class Clock(Protocol):
    """What can stamp: `LamportClock`, `HybridClock`, `VectorClock`, `BoundedClock`, or one of your own."""

    def local(self) -> Stamp: ...
    def send(self) -> Stamp: ...
    def receive(self, stamp: Any, /) -> Stamp: ...


class Stamper:
    """Stamps events until the clock cannot take in a cause, and from then on not at all.

    The clock's later stamps would sort an effect before its cause, or call it concurrent. Reports without a stamp are
    still related by their messages.
    """

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock
        self.refusal = ""
        """Why there are no stamps any more."""

    @property
    def is_stamping(self) -> bool:
        """Whether events still get stamps."""
        return self._clock is not None

    def stamp(self, kind: str, message: Message | None, *, unstamped: bool) -> Stamp | None:
        """The stamp of an event; `unstamped` says that it takes in something whose causes are not known."""
        if self._clock is None:
            return None
        try:
            return _stamp(self._clock, kind, message, unstamped)
        except Exception as refusal:
            self._clock = None
            self.refusal = f"{type(refusal).__name__}: {refusal}"
            return None


def _stamp(clock: Clock, kind: str, message: Message | None, unstamped: bool) -> Stamp:
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
    """What makes a clock for a process of a given name; None for a clock that is made already."""
    if clock is None:
        return LamportClock
    if isinstance(clock, type) or not hasattr(clock, "local"):
        return cast(Callable[[str], Clock], clock)
    return None


def full_name(process: str, incarnation: str | None) -> str:
    """The name of one start of a process: ``PROCESS@INCARNATION``, or the bare name if the incarnation is empty."""
    if incarnation is None:
        incarnation = "".join(secrets.choice(_LETTERS) for _ in range(12))
    name = f"{process}@{incarnation}" if incarnation else process
    check_name(process)
    check_name(name)
    return name


def name_of(clock: object, process: str, incarnation: str | None) -> str:
    """The full name that a clock was made with. Raises ValueError if it is not that of this process."""
    if incarnation is not None:
        raise ValueError("a clock that is already made has its name; leave out incarnation, or pass the clock's class")
    name = getattr(clock, "process", None)
    if not isinstance(name, str) or not (name == process or name.startswith(f"{process}@")):
        raise ValueError(
            f"the clock is that of {name!r:.60}, not of {process!r:.60}; pass its class, and it gets the right name"
        )
    return name
