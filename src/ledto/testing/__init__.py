"""Take a clock; give the number of its answers that agree with true happened-before, or the first that does not.

>>> from ledto.clocks import LamportClock
>>> check_clock(LamportClock, histories=2)   # the number of pairs compared, or ClockCheckFailed
990
"""

from ledto.testing.check import ClockCheckFailed, check_clock
from ledto.testing.time import Drift
from ledto.testing.truth import TrueHistory

__all__ = ["ClockCheckFailed", "Drift", "TrueHistory", "check_clock"]
