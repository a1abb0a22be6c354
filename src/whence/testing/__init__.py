"""Checks that ship: takes a clock, gives nothing or the first contradiction with true happened-before."""

from whence.testing.check import ClockCheckFailed, check_clock
from whence.testing.history import History
from whence.testing.time import Drift

__all__ = ["ClockCheckFailed", "Drift", "History", "check_clock"]
