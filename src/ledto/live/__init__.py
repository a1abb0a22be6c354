"""Take reports as they come; keep a history that grows with them, and a log of deliveries.

One row of that log::

    17, "", "shop", 4, null, "order placed", "send", 1700000000000000000, ..., 2100000000, false, "{...}", null, ...

`writer` runs each micro-batch: `dates` dates the reports, `ingest` puts them into the tails of their computations,
`chain` solves the tails and closes what is settled, `emit` and `delivery_log` append due deliveries to the log,
`commit` and `files` write the files. `reader` shows each commit whole. All of it is plain Python on Arrow tables and
does not know Spark.
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
