"""What the manifest of a live history says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

from msgspec.structs import replace

from whence.history.deliveries import Outcome, summary
from whence.history.joining import Unbalanced
from whence.history.live.emitting import Piece
from whence.history.live.records import Record
from whence.history.live.set_aside import SetAside
from whence.history.live.state import Closed
from whence.history.live.terms import LiveTerms
from whence.history.manifest import Description, Ledger, PolicySummary, StreamCounts, StreamDelays, WallClockSummary


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
    records: Sequence[Record],
    tails: Sequence[Piece],
    closed: Closed,
    aside: SetAside,
    terms: LiveTerms,
    channels: dict[str, int],
) -> Description:
    """Describe the history. `records` are all segments by number, `tails` those not closed, `channels` what is counted."""
    policies, wall_clock = _delivered(records, tails, closed.delivered, terms)
    events = sum(each.rows for each in records)
    counted = aside.counted_with(each.part.aside for each in tails)
    return Description(
        unit="ns",
        eps=terms.eps,
        lag=max((each.lag for each in records), default=0),
        lag_event=None,
        inputs=(),
        ledger=Ledger(
            reports=events + counted.duplicate + counted.quarantined,
            delivered=events,
            duplicate=counted.duplicate,
            quarantined=counted.quarantined,
            reasons=dict(sorted(counted.reasons.items())),
            missing_causes=sum(each.missing for each in records),
        ),
        attributes=tuple(sorted(closed.attributes | {name for each in tails for name in each.record.attributes})),
        native_columns=(),
        has_ids=any(each.files.ids_file is not None for each in records),
        given_seq=False,
        aside_files=(),
        channels=channels,
        policies=policies,
        wall_clock=wall_clock,
    )


def counted(description: Description, policy: PolicySummary, *, logged: int, ahead: int) -> StreamCounts:
    """Count what became of the reports so far, `logged` of which are in the log, whose policy this is."""
    ledger = description.ledger
    return StreamCounts(
        reports=ledger.reports,
        duplicate=ledger.duplicate,
        quarantined=ledger.quarantined,
        late=policy.late,
        messages=policy.violations.get("messages", 0),
        violations=policy.violations.get("messages_inverted", 0),
        delivered=logged,
        waiting=ledger.delivered - logged,
        ahead=ahead,
    )


def delays(policy: PolicySummary) -> StreamDelays:
    """Tell how long deliveries under this policy waited."""
    return StreamDelays(*(policy.delays.get(name) for name in StreamDelays.__struct_fields__))


def check_accounts(ledger: Ledger, reports: int) -> None:
    """Raise `Unbalanced` unless every report that came is accounted for once."""
    if ledger.reports != reports:
        raise Unbalanced(f"{reports} reports came in, and these are accounted for: {ledger}")


def _delivered(
    records: Sequence[Record], tails: Sequence[Piece], closed: Outcome | None, terms: LiveTerms
) -> tuple[dict[str, PolicySummary], WallClockSummary]:
    """Sum up what policies came to; `closed` is the sum over all segments that are."""
    outcomes = [each.record.outcome for each in tails if each.record.outcome is not None]
    outcomes += [closed] if closed is not None else []
    policies, wall_clock = summary([summed(outcomes)] if outcomes else [], terms.delivering)
    for name, policy in policies.items():
        files = tuple(each.outcome.files[name] for each in records if each.outcome is not None)
        policies[name] = replace(policy, files=files)
    return policies, wall_clock
