"""What the manifest of a live history says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from whence.history.deliveries import Outcome, summary
from whence.history.joining import Unbalanced
from whence.history.live.emitting import Piece
from whence.history.live.records import Record
from whence.history.live.set_aside import SetAside
from whence.history.live.state import Closed
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
    records: Sequence[Record], tails: Sequence[Piece], closed: Closed, aside: SetAside, terms: LiveTerms
) -> dict[str, Any]:
    """The manifest, apart from names of files, versions and what the log has.

    `records` are all segments by number, and `tails` those that are not closed.
    """
    told = _delivered(records, tails, closed.delivered, terms)
    events = sum(each.rows for each in records)
    counted = aside.counted_with(each.part.aside for each in tails)
    accounts: dict[str, Any] = {
        "reports": events + counted.duplicate + counted.quarantined,
        "delivered": events,
        "duplicate": counted.duplicate,
        "quarantined": counted.quarantined,
        "reasons": dict(sorted(counted.reasons.items())),
        "missing_causes": sum(each.missing for each in records),
    }
    policy = told["policies"][terms.order_policy]
    counts = {name: accounts[name] for name in ("reports", "duplicate", "quarantined")}
    counts |= {
        "late": policy["late"],
        "messages": policy["violations"].get("messages", 0),
        "violations": policy["violations"].get("messages_inverted", 0),
    }
    return {
        **told,
        "unit": "ns",
        "eps": terms.eps,
        "lag": max((each.lag for each in records), default=0),
        "lag_event": None,
        "inputs": [],
        "native_columns": [],
        "attributes": sorted(closed.attributes | {name for each in tails for name in each.record.attributes}),
        "has_ids": any(each.files.ids_file is not None for each in records),
        "given_seq": False,
        "channels": {},
        "events": events,
        "ledger": accounts,
        "stream": {
            "policy": terms.order_policy,
            "counts": counts,
            "delay_ns": {name: policy["delays"].get(name) for name in ("p50", "p95", "p99", "max")},
        },
    }


def check_accounts(accounts: dict[str, Any], reports: int) -> None:
    """Raise `Unbalanced` unless every report that came is accounted for once."""
    if accounts["reports"] != reports:
        raise Unbalanced(f"{reports} reports came in, and these are accounted for: {accounts}")


def _delivered(
    records: Sequence[Record], tails: Sequence[Piece], closed: Outcome | None, terms: LiveTerms
) -> dict[str, Any]:
    """What policies came to; `closed` is the sum over all segments that are."""
    outcomes = [each.record.outcome for each in tails if each.record.outcome is not None]
    outcomes += [closed] if closed is not None else []
    told = summary([summed(outcomes)] if outcomes else [], terms.delivering)
    for name, policy in told["policies"].items():
        policy["files"] = [each.outcome.files[name] for each in records if each.outcome is not None]
    return told
