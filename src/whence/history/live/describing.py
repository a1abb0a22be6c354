"""What the manifest of a live history says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from whence.history.deliveries import Outcome, summary
from whence.history.live.records import Record
from whence.history.live.terms import LiveTerms


def summed(outcomes: Sequence[Outcome]) -> Outcome:
    """What several segments come to together; without files."""
    first = outcomes[0]
    return Outcome(
        0,
        dict.fromkeys(first.files, ""),
        {name: reduce(add, (each.contradictions[name] for each in outcomes)) for name in first.files},
        {name: sum(each.late[name] for each in outcomes) for name in first.files},
        {name: reduce(add, (each.waits[name] for each in outcomes)) for name in first.files},
        reduce(add, (each.wall_clock for each in outcomes)),
    )


def described(
    records: Sequence[Record], closed: Outcome | None, tails: Sequence[Outcome], terms: LiveTerms
) -> dict[str, Any]:
    """The parts of the manifest that a history made at once has, too, apart from counts of reports.

    `records` are all segments by number; `closed` is the sum over those that are closed, and `tails` are the others.
    """
    outcomes = [*([closed] if closed is not None else []), *tails]
    told = summary([summed(outcomes)] if outcomes else [], terms.delivering)
    for name, policy in told["policies"].items():
        policy["files"] = [each.outcome.files[name] for each in records if each.outcome is not None]
    return {
        "unit": "ns",
        "eps": terms.eps,
        "lag": max((each.lag for each in records), default=0),
        "lag_event": None,
        "inputs": [],
        "native_columns": [],
        "has_ids": any(each.files.ids_file is not None for each in records),
        "given_seq": False,
        "channels": {},
        **told,
    }
