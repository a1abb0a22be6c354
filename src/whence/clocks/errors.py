"""What can go wrong with clocks and stamps. Every message says what, where, and what to do next."""

from __future__ import annotations


class WhenceError(Exception):
    """Base of every error this package raises on purpose."""


class StampError(WhenceError, ValueError):
    """Bytes or JSON that are not the stamp they were taken for."""


class ClockError(WhenceError):
    """An operation that the clock must refuse because the answer would not be true."""


class UnstampedMessage(ClockError):
    """A message without a stamp reached a participant that was not told to accept such messages."""


class ClockDrift(ClockError):
    """A reading breaks the bound the clock was given; every stamp after it would be wrong."""


class Retired(ClockError):
    """An instance that was duplicated, combined or handed over was asked to act again."""
