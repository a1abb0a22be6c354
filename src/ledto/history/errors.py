"""What can be wrong with a history or with a question about it. Each message says what to do next."""

from __future__ import annotations

from ledto.errors import LedtoError


class HistoryError(LedtoError):
    """Base of the errors about histories."""


class NoHistory(HistoryError):
    """There is no history at this place, or none whose making has been finished."""


class DamagedHistory(HistoryError):
    """Files of the history are missing or cannot be read."""


class HistoryReplaced(HistoryError):
    """A newer run has replaced the history while it was open, and its files are gone."""


class UnsupportedFormat(HistoryError):
    """The history was written by another version of ledto."""


class HistoryInUse(HistoryError):
    """Another run is writing this history."""


class EventNotFound(HistoryError):
    """No event of the history goes by this name."""


class AmbiguousEvent(HistoryError):
    """Several events go by this name, in different computations."""


class BadCondition(HistoryError):
    """A condition that is not SQL, or that names columns which do not exist."""


class UnknownPolicy(HistoryError):
    """The history holds no deliveries under this policy."""
