"""Quarantine reports of a stream.

They are counted at once, and written to a file that stays when there are many or a segment is closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ledto.history import layout
from ledto.history.quarantine import DUPLICATE, count_codes
from ledto.history.store import Store
from ledto.history.write import write_quarantine

FILED_ROWS = 10_000
"""Quarantined reports get a file that stays once there are this many."""


@dataclass(slots=True)
class LiveQuarantine:
    """The reports that are quarantined for good. Stored with every commit."""

    duplicate: int = 0
    quarantined: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    files: list[str] = field(default_factory=list)
    rows: pa.Table = field(default_factory=layout.QUARANTINE.empty_table)
    """Those that are in none of the files yet."""

    def add(self, rows: pa.Table) -> None:
        """Quarantine these rows for good. They have at least the columns of `layout.QUARANTINE`."""
        counted = self.counted_with([rows])
        self.duplicate, self.quarantined, self.reasons = counted.duplicate, counted.quarantined, counted.reasons
        self.rows = pa.concat_tables([self.rows, rows.select(layout.QUARANTINE.names)])

    def counted_with(self, tables: Iterable[pa.Table]) -> LiveQuarantine:
        """Add the counts of rows that are quarantined for now, in tails, which may still change; return a copy."""
        total = LiveQuarantine(self.duplicate, self.quarantined, Counter(self.reasons))
        for rows in tables:
            duplicate = int(pc.sum(pc.equal(rows["outcome"], DUPLICATE)).as_py() or 0)
            total.duplicate += duplicate
            total.quarantined += len(rows) - duplicate
            total.reasons += count_codes(rows)
        return total

    def write(self, store: Store, run: str, tag: str, for_now: Iterable[pa.Table], *, file: bool) -> list[str]:
        """Write quarantine files; return the names of all.

        Rows `for_now` get a file that lasts one commit. With `file`, all others get one that stays.
        """
        if len(self.rows) and (file or len(self.rows) >= FILED_ROWS):
            self.files.append(write_quarantine(store, run, self.rows, attempt=f"filed-{tag}"))
            self.rows = layout.QUARANTINE.empty_table()
        rest = pa.concat_tables([self.rows, *(rows.select(layout.QUARANTINE.names) for rows in for_now)])
        return [*self.files, *([write_quarantine(store, run, rest, attempt=f"tail-{tag}")] if len(rest) else [])]
