"""Takes reports as they come; keeps a history that grows with them, and a log of deliveries.

A report is dated (`dating`), goes to its computation's tail, and is closed with it (`intake`, `chain`); each
micro-batch solves the tails anew, delivers, appends to the log (`emitting`, `log`) and commits (`writer`). Readers see each
commit whole (`reading`). All of it is plain Python on Arrow tables: Spark brings the reports, and none of it knows Spark.
"""

from __future__ import annotations

from whence.live.delivery_log import DELIVERED, LogTrimmed
from whence.live.limits import LiveLimits
from whence.live.reader import LiveHistory
from whence.live.rescue import blames_reports, rescue
from whence.live.terms import LiveTerms, OtherTerms
from whence.live.writer import LiveWriter

__all__ = [
    "DELIVERED",
    "LiveHistory",
    "LiveLimits",
    "LiveTerms",
    "LiveWriter",
    "LogTrimmed",
    "OtherTerms",
    "blames_reports",
    "rescue",
]
