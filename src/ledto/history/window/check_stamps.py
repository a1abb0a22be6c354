"""Stamps that came with the events, held against the messages: verified, not believed."""

from __future__ import annotations

import json
from bisect import bisect_left

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.order import OrderedRows
from ledto.clocks import CausalStamp, OrderedStamp, Relation, relation
from ledto.clocks.any_stamp import stamp_from_json
from ledto.errors import LedtoError

Longs = NDArray[np.int64]


def contradictions(
    stamps: pa.Array, process: NDArray[np.int32], ordered: OrderedRows, dropped: NDArray[np.bool_]
) -> tuple[Longs, list[str]]:
    """Canonical rows whose stamp does not come after the stamp of one of their direct causes, with the reason.

    Direct causes are the row before in the process and the messages received. A row found to contradict, or already
    dropped, is no evidence against later rows. Stamps of different clocks are not compared.
    """
    decoded: dict[int, object] = {}
    found: list[tuple[int, str]] = []
    latest: dict[int, int] = {}
    edges = ordered.edges
    for row in ordered.times.order(np.arange(len(process))).tolist():
        text = stamps[row].as_py()
        if text is None or dropped[row]:
            continue
        stamp = _decoded(text)
        if isinstance(stamp, str):
            found.append((row, stamp))
            continue
        own = int(process[row])
        causes = edges.causes[edges.offsets[row] : edges.offsets[row + 1]].tolist()
        before = [decoded[each] for each in (*causes, latest.get(own, -1)) if each in decoded]
        wrong = next((each for each in before if _contradicts(each, stamp)), None)
        if wrong is not None:
            found.append((row, _told(stamp, wrong, "come after", "cause")))
            continue
        decoded[row] = stamp
        latest[own] = row
    return _by_row(found)


def first_contradictions(
    stamps: pa.Array,
    process: NDArray[np.int32],
    ordered: OrderedRows,
    dropped: NDArray[np.bool_],
    came: Longs,
    kept: NDArray[np.bool_],
    alone: bool,
) -> tuple[Longs, list[str]]:
    """The same for a stream: of two rows that contradict each other, the one that came first stays.

    `came`: by row, its turn. Rows of `kept` stay in any case. `alone`: rows are not compared, because what precedes what
    among them may still change; only what is no stamp is named.
    """
    decoded: dict[int, object] = {}
    found: list[tuple[int, str]] = []
    stamped: dict[int, list[int]] = {}
    edges = ordered.edges
    effects = edges.effects()
    by_cause = np.argsort(edges.causes, kind="stable")
    starts = np.searchsorted(edges.causes[by_cause], np.arange(len(process) + 1))
    for row in np.argsort(came, kind="stable").tolist():
        text = stamps[row].as_py()
        if text is None or dropped[row]:
            continue
        stamp = _decoded(text)
        if isinstance(stamp, str):
            if not kept[row]:
                found.append((row, stamp))
            continue
        if alone:
            continue
        line = stamped.setdefault(int(process[row]), [])
        at = bisect_left(line, row)
        causes = [*edges.causes[edges.offsets[row] : edges.offsets[row + 1]].tolist(), *line[max(0, at - 1) : at]]
        later = [*effects[by_cause[starts[row] : starts[row + 1]]].tolist(), *line[at : at + 1]]
        wrong = next((decoded[each] for each in causes if each in decoded and _contradicts(decoded[each], stamp)), None)
        late = next((decoded[each] for each in later if each in decoded and _contradicts(stamp, decoded[each])), None)
        if not kept[row] and wrong is not None:
            found.append((row, _told(stamp, wrong, "come after", "cause")))
        elif not kept[row] and late is not None:
            found.append((row, _told(stamp, late, "come before", "effect")))
        else:
            decoded[row] = stamp
            line.insert(at, row)
    return _by_row(found)


def _decoded(text: str) -> object:
    """The stamp, or what is wrong with it."""
    try:
        return stamp_from_json(json.loads(text))
    except (LedtoError, ValueError, RecursionError) as refused:
        return f"not a stamp: {refused!s:.200}"


def _contradicts(cause: object, effect: object) -> bool:
    return type(cause) is type(effect) and not _precedes(cause, effect)


def _told(stamp: object, other: object, should: str, what: str) -> str:
    return f"its stamp {stamp!s:.80} does not {should} {other!s:.80}, the stamp of a direct {what}"


def _by_row(found: list[tuple[int, str]]) -> tuple[Longs, list[str]]:
    found = sorted(found, key=lambda each: each[0])
    return np.array([row for row, _ in found], np.int64), [detail for _, detail in found]


def _precedes(cause: object, effect: object) -> bool:
    try:
        if isinstance(cause, OrderedStamp):
            return bool(cause < effect)  # type: ignore[operator]
        if isinstance(cause, CausalStamp) and isinstance(effect, CausalStamp):
            return relation(cause, effect) is Relation.BEFORE
        return True  # A stamp that cannot say "before" cannot contradict it.
    except (LedtoError, TypeError, ValueError):
        return False
