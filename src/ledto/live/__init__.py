"""Takes reports as they come; keeps a history that grows with them, and a log of deliveries.

A report is dated (`dating`), goes to its computation's tail, and is closed with it (`intake`, `chain`); each
micro-batch solves the tails anew, delivers, appends to the log (`emitting`, `log`) and commits (`writer`). Readers see each
commit whole (`reading`). All of it is plain Python on Arrow tables: Spark brings the reports, and none of it knows Spark.
"""

from __future__ import annotations

from ledto.live.delivery_log import DELIVERED, LogTrimmed
from ledto.live.limits import LiveLimits
from ledto.live.reader import LiveHistory
from ledto.live.rescue import blames_reports, rescue
from ledto.live.terms import LiveTerms, OtherTerms
from ledto.live.writer import LiveWriter

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
