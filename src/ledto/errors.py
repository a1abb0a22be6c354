"""Define `LedtoError`, the base of all our errors, and the errors of clocks and stamps. Recognise a full disk.

Every message says what is wrong, where, and what to do next."""

from __future__ import annotations

from errno import EDQUOT, ENOSPC


class LedtoError(Exception):
    """Base of every error this package raises on purpose."""


class StampError(LedtoError, ValueError):
    """Bytes or JSON that are not a stamp of the expected kind."""


class ClockError(LedtoError):
    """An operation that the clock refuses, because its answer would be wrong."""


class UnstampedMessage(ClockError):
    """A message without a stamp, given to a clock that does not accept such messages."""


class ClockDrift(ClockError):
    """A reading that breaks the bound of the clock; every later stamp would be wrong."""


class Retired(ClockError):
    """An operation on an instance that was duplicated, combined or handed over before."""


def is_full(failure: BaseException) -> bool:
    """Tell whether an error means that a disk is full, or a quota used up."""
    return isinstance(failure, OSError) and failure.errno in (ENOSPC, EDQUOT)


def explain_full_disk(place: object) -> str:
    """Say that a disk is full, and what to do."""
    return f"no space left on {place}: make room there, or name a place with more of it, and try again"
