"""Check a clock against true happened-before, on random histories.

::

    check_clock(LamportClock, histories=20)   # the number of pairs compared, or ClockCheckFailed
"""

from whence.testing.check import ClockCheckFailed, check_clock
from whence.testing.time import Drift
from whence.testing.truth import TrueHistory

__all__ = ["ClockCheckFailed", "Drift", "TrueHistory", "check_clock"]
