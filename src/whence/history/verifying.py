"""Stamps that came with the events, held against the messages: verified, not believed."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whence.causality.ordering import Ordered
from whence.clocks import CausalStamp, OrderedStamp, Relation, relation
from whence.clocks.decoding import stamp_from_json
from whence.clocks.errors import WhenceError

Longs = NDArray[np.int64]


def contradictions(
    stamps: pa.Array, process: NDArray[np.int32], ordered: Ordered, dropped: NDArray[np.bool_]
) -> tuple[Longs, list[str]]:
    """Canonical rows whose stamp does not come after the stamp of one of their direct causes, with the reason.

    Direct causes are the row before in the process and the messages received. A row found to contradict, or already
    dropped, is no evidence against later rows. Stamps of different clocks are not compared.
    """
    decoded: dict[int, object] = {}
    found: list[int] = []
    details: list[str] = []
    latest: dict[int, int] = {}
    edges = ordered.edges
    for row in ordered.times.order(np.arange(len(process))).tolist():
        text = stamps[row].as_py()
        if text is None or dropped[row]:
            continue
        try:
            stamp = stamp_from_json(json.loads(text))
        except (WhenceError, ValueError, RecursionError) as refused:
            found.append(row)
            details.append(f"not a stamp: {refused!s:.200}")
            continue
        own = int(process[row])
        causes = edges.causes[edges.offsets[row] : edges.offsets[row + 1]].tolist()
        before = [decoded[each] for each in (*causes, latest.get(own, -1)) if each in decoded]
        wrong = next((each for each in before if type(each) is type(stamp) and not _precedes(each, stamp)), None)
        if wrong is not None:
            found.append(row)
            details.append(f"its stamp {stamp!s:.80} does not come after {wrong!s:.80}, the stamp of a direct cause")
            continue
        decoded[row] = stamp
        latest[own] = row
    by_row = np.argsort(np.array(found, np.int64), kind="stable")
    return np.array(found, np.int64)[by_row], [details[at] for at in by_row]


def _precedes(cause: object, effect: object) -> bool:
    try:
        if isinstance(cause, OrderedStamp):
            return bool(cause < effect)  # type: ignore[operator]
        if isinstance(cause, CausalStamp) and isinstance(effect, CausalStamp):
            return relation(cause, effect) is Relation.BEFORE
        return True  # A stamp that cannot say "before" cannot contradict it.
    except (WhenceError, TypeError, ValueError):
        return False
