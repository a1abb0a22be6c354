"""Errors about a history, or about a question to it. Each message says what to do next."""

from __future__ import annotations

from ledto.errors import LedtoError


class HistoryError(LedtoError):
    """The base of all errors about histories."""


class NoHistory(HistoryError):
    """The folder holds no history, or only one that was never finished."""


class DamagedHistory(HistoryError):
    """Files of the history are missing or cannot be read."""


class HistoryReplaced(HistoryError):
    """A newer run replaced the history while it was open, and deleted its files."""


class UnsupportedFormat(HistoryError):
    """The history was written by another version of ledto."""


class HistoryInUse(HistoryError):
    """Another run is writing this history."""


class EventNotFound(HistoryError):
    """The history has no event of this name."""


class AmbiguousEvent(HistoryError):
    """Several events have this name, in different computations."""


class BadCondition(HistoryError):
    """The condition is not SQL, or names columns that do not exist."""


class BadQuery(HistoryError):
    """A query that DuckDB refuses."""


class UnknownPolicy(HistoryError):
    """The history has no deliveries under this policy."""
