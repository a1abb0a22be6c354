"""Check the stamps that came with events against their messages: a stamp must come after those of its direct causes.

Direct causes are the row before in the process and the messages received. Stamps of different clocks are not compared.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.order import OrderedRows
from ledto.clocks import CausalStamp, OrderedStamp, Relation, relation
from ledto.clocks.any_stamp import stamp_from_json
from ledto.errors import LedtoError

Longs = NDArray[np.int64]

NO_ROW = -1


def contradictions(
    stamps: pa.Array, process: NDArray[np.int32], ordered: OrderedRows, dropped: NDArray[np.bool_]
) -> tuple[Longs, list[str]]:
    """Find the canonical rows whose stamp contradicts that of a direct cause; return them with the reasons.

    A row that contradicts, or is already dropped, is not used to judge later rows.
    """
    decoded: dict[int, object] = {}
    refused: list[tuple[int, str]] = []
    latest: dict[int, int] = {}
    edges = ordered.edges
    for row in ordered.times.order(np.arange(len(process))).tolist():
        text = stamps[row].as_py()
        if text is None or dropped[row]:
            continue
        stamp = _decode(text)
        if isinstance(stamp, _NotAStamp):
            refused.append((row, stamp.reason))
            continue
        own = int(process[row])
        causes = edges.causes[edges.offsets[row] : edges.offsets[row + 1]].tolist()
        of_causes = [decoded[cause] for cause in (*causes, latest.get(own, NO_ROW)) if cause in decoded]
        later_cause = next((other for other in of_causes if _contradicts(other, stamp)), None)
        if later_cause is not None:
            refused.append((row, _explain(stamp, later_cause, "come after", "cause")))
            continue
        decoded[row] = stamp
        latest[own] = row
    return _by_row(refused)


def first_contradictions(
    stamps: pa.Array,
    process: NDArray[np.int32],
    ordered: OrderedRows,
    dropped: NDArray[np.bool_],
    turn: Longs,
    kept: NDArray[np.bool_],
    alone: bool,
) -> tuple[Longs, list[str]]:
    """Find contradictions in a stream: of two rows that contradict each other, the first to arrive stays.

    `turn`, by row: its turn of arrival. Rows of `kept` stay in any case. `alone`: rows are not compared, because their order
    may still change; only texts that are no stamps are refused.
    """
    decoded: dict[int, object] = {}
    refused: list[tuple[int, str]] = []
    stamped: dict[int, list[int]] = {}
    edges = ordered.edges
    effects = edges.effects()
    by_cause = np.argsort(edges.causes, kind="stable")
    starts = np.searchsorted(edges.causes[by_cause], np.arange(len(process) + 1))
    for row in np.argsort(turn, kind="stable").tolist():
        text = stamps[row].as_py()
        if text is None or dropped[row]:
            continue
        stamp = _decode(text)
        if isinstance(stamp, _NotAStamp):
            if not kept[row]:
                refused.append((row, stamp.reason))
            continue
        if alone:
            continue
        rows = stamped.setdefault(int(process[row]), [])
        at = bisect_left(rows, row)
        causes = [*edges.causes[edges.offsets[row] : edges.offsets[row + 1]].tolist(), *rows[max(0, at - 1) : at]]
        later = [*effects[by_cause[starts[row] : starts[row + 1]]].tolist(), *rows[at : at + 1]]
        of_causes = (decoded[cause] for cause in causes if cause in decoded)
        of_effects = (decoded[effect] for effect in later if effect in decoded)
        later_cause = next((other for other in of_causes if _contradicts(other, stamp)), None)
        earlier_effect = next((other for other in of_effects if _contradicts(stamp, other)), None)
        if not kept[row] and later_cause is not None:
            refused.append((row, _explain(stamp, later_cause, "come after", "cause")))
        elif not kept[row] and earlier_effect is not None:
            refused.append((row, _explain(stamp, earlier_effect, "come before", "effect")))
        else:
            decoded[row] = stamp
            rows.insert(at, row)
    return _by_row(refused)


@dataclass(frozen=True, slots=True)
class _NotAStamp:
    """The reason why a text is not a stamp."""

    reason: str


def _decode(text: str) -> object:
    """Decode a stamp; a `_NotAStamp` if that fails."""
    try:
        return stamp_from_json(json.loads(text))
    except (LedtoError, ValueError, RecursionError) as refused:
        return _NotAStamp(f"not a stamp: {refused!s:.200}")


def _contradicts(cause: object, effect: object) -> bool:
    """Tell whether two stamps of one clock are not in the order of cause and effect."""
    return type(cause) is type(effect) and not _precedes(cause, effect)


def _explain(stamp: object, other: object, should: str, what: str) -> str:
    """Say which two stamps contradict each other."""
    return f"its stamp {stamp!s:.80} does not {should} {other!s:.80}, the stamp of a direct {what}"


def _by_row(refused: list[tuple[int, str]]) -> tuple[Longs, list[str]]:
    """Sort by row; return rows and reasons."""
    refused = sorted(refused, key=lambda row_and_reason: row_and_reason[0])
    return np.array([row for row, _ in refused], np.int64), [reason for _, reason in refused]


def _precedes(cause: object, effect: object) -> bool:
    """Tell whether a stamp comes before another of the same clock; true if such stamps cannot say."""
    try:
        if isinstance(cause, OrderedStamp):
            return bool(cause < effect)  # type: ignore[operator]
        if isinstance(cause, CausalStamp) and isinstance(effect, CausalStamp):
            return relation(cause, effect) is Relation.BEFORE
        return True  # A stamp that cannot say "before" cannot contradict it.
    except (LedtoError, TypeError, ValueError):
        return False
