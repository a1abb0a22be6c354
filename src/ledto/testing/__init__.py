"""Check a clock against true happened-before, on random histories.

::

    check_clock(LamportClock, histories=20)   # the number of pairs compared, or ClockCheckFailed
"""

from ledto.testing.check import ClockCheckFailed, check_clock
from ledto.testing.time import Drift
from ledto.testing.truth import TrueHistory

__all__ = ["ClockCheckFailed", "Drift", "TrueHistory", "check_clock"]
