"""Reports of a stream that are set aside: counted at once, and filed when there are many or a segment is closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ledto.history import layout
from ledto.history.quarantine import DUPLICATE, count_codes
from ledto.history.store import Store
from ledto.history.write import write_aside

FILED_ROWS = 10_000
"""Reports set aside after which they get a file of their own."""


@dataclass(slots=True)
class SetAside:
    """What was set aside for good. Stored with every commit."""

    duplicate: int = 0
    quarantined: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    files: list[str] = field(default_factory=list)
    rows: pa.Table = field(default_factory=layout.ASIDE.empty_table)
    """Those that are in none of the files yet."""

    def add(self, rows: pa.Table) -> None:
        """Set these aside, which have the columns of `layout.ASIDE`, and perhaps others."""
        counted = self.counted_with([rows])
        self.duplicate, self.quarantined, self.reasons = counted.duplicate, counted.quarantined, counted.reasons
        self.rows = pa.concat_tables([self.rows, rows.select(layout.ASIDE.names)])

    def counted_with(self, tables: Iterable[pa.Table]) -> SetAside:
        """The counts together with those of tables that are set aside for now: in tails, which may still change."""
        found = SetAside(self.duplicate, self.quarantined, Counter(self.reasons))
        for rows in tables:
            duplicate = int(pc.sum(pc.equal(rows["outcome"], DUPLICATE)).as_py() or 0)
            found.duplicate += duplicate
            found.quarantined += len(rows) - duplicate
            found.reasons += count_codes(rows)
        return found

    def write(self, store: Store, run: str, tag: str, for_now: Iterable[pa.Table], *, file: bool) -> list[str]:
        """The files with all that is set aside, for good and for now; `file`: what is for good gets one that stays."""
        if len(self.rows) and (file or len(self.rows) >= FILED_ROWS):
            self.files.append(write_aside(store, run, self.rows, attempt=f"filed-{tag}"))
            self.rows = layout.ASIDE.empty_table()
        rest = pa.concat_tables([self.rows, *(rows.select(layout.ASIDE.names) for rows in for_now)])
        return [*self.files, *([write_aside(store, run, rest, attempt=f"tail-{tag}")] if len(rest) else [])]
