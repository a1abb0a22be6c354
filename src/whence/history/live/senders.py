"""Looks for the senders of messages among closed segments: for those that were received before and are received again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whence.causality.boundary import Boundary
from whence.causality.clocks import clock_rows
from whence.causality.skeleton import Skeleton
from whence.history.live.chain import Chain, Part

LOOK_BACK = 8
"""Closed segments of a chain that are looked through, the newest first."""
REMEMBERED = 100_000
"""Keys that nobody sent, so that they are looked for once."""

Found = tuple[str, int, int, int, Any]
Segment = tuple[int, pa.ChunkedArray, Skeleton, Boundary]
"""First position within the chain, what is sent, and what vectors come from."""


class Senders:
    """Finds sends in the segments that `open_segment` gives, and in those that were closed since."""

    def __init__(self) -> None:
        self._new: dict[str, list[tuple[int, Part]]] = {}
        self._absent: dict[tuple[str, str], int] = {}

    def closed(self, computation: str, first_position: int, part: Part) -> None:
        """A part was closed that is not committed yet."""
        self._new.setdefault(computation, []).append((first_position, part))

    def committed(self) -> None:
        """All closed parts are in the history."""
        self._new.clear()

    def find(self, chain: Chain, keys: set[str], committed: Iterable[Segment]) -> Iterator[Found]:
        """The sends of these keys; `committed` are segments of the chain, the newest first, taken only as needed."""
        wanted = {key for key in keys if self._absent.get((chain.computation, key)) != chain.end}
        new = (
            (first, part.events["sends"], part.skeleton, part.boundary)
            for first, part in reversed(self._new.get(chain.computation, []))
        )
        for _, (first, sends, skeleton, boundary) in zip(range(LOOK_BACK), _both(new, committed), strict=False):
            if not wanted:
                return
            chosen = pc.fill_null(pc.is_in(sends, value_set=pa.array(sorted(wanted), pa.string())), False)
            rows = pc.indices_nonzero(chosen).to_numpy().astype(np.int64)
            if not len(rows):
                continue
            assert boundary is not None
            vectors = clock_rows(skeleton, boundary, rows)
            for row, vector in zip(rows.tolist(), vectors, strict=True):
                key, code = sends[row].as_py(), int(skeleton.process[row])
                if key in wanted:
                    wanted.discard(key)
                    yield key, first + row, code, int(vector[code]), vector
        if len(self._absent) > REMEMBERED:
            self._absent.clear()
        self._absent.update({(chain.computation, key): chain.end for key in wanted})


def _both(new: Iterable[Any], committed: Iterable[Segment]) -> Iterator[Any]:
    yield from new
    yield from committed
