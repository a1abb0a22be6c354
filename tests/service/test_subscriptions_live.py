"""Subscriptions on a history that is being written: each event once, with what truly led to it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from ledto.events.schema import REPORTS
from ledto.live import LiveHistory, LiveTerms, LiveWriter
from ledto.service.subscriptions.match import Matchers
from ledto.service.subscriptions.notifications import Notification, NotificationPage, Notifier
from ledto.service.subscriptions.store import Subscription
from tests.history.computations import Event, draw, past_of

MS = 1_000_000
START = 1_700_000_000_000_000_000
LONGEST_MS = 90
EVERYTHING = Subscription("0" * 24, "true", 10_000, None, 0, 0)
NO_CAUSES = Subscription("1" * 24, "true", 0, None, 0, 0)


def name_of(event: Event) -> str:
    return f"{event.process}-{event.number}"


def report(event: Event, random: Random, *, numbered: bool, ids: bool, place: int) -> dict[str, Any]:
    time = START + event.time * MS
    return {
        "computation": "",
        "process": event.process,
        "seq": event.number if numbered else None,
        "id": f"id of {name_of(event)}" if ids else None,
        "name": name_of(event),
        "time": time,
        "kind": "receive" if event.receives else "send" if event.sends else "local",
        "sends": event.sends,
        "receives": event.receives[0] if event.receives else None,
        "receives_more": event.receives[1:] or None,
        "arrival": time + random.randrange(LONGEST_MS) * MS,
        "file": "nats:ledto",
        "place": place,
    }


def heard(teller: Notifier, told: list[Notification], after: int, subscription: Subscription = EVERYTHING) -> int:
    """What there is now; gives where to go on."""
    step = NotificationPage((), after, at_end=False)
    while not step.at_end:
        step = teller.read_page(subscription, step.upto)
        told += step.notifications
    return step.upto


@pytest.mark.parametrize(("seed", "numbered", "ids"), [(1, False, False), (2, True, False), (3, False, True)])
def test_each_event_is_told_once_with_its_true_causes(tmp_path: Path, seed: int, numbered: bool, ids: bool) -> None:
    """Followed while it is written, the log must not tell of an event too early, twice, or as another one."""
    random = Random(seed)
    events = draw(random, processes=4, events=120, skew=10, loss=0.05)
    rows = [
        report(event, random, numbered=numbered, ids=ids, place=place)
        for place, event in enumerate(events)
        if not event.lost
    ]
    rows.sort(key=lambda row: row["arrival"])
    teller = Notifier(LiveHistory(tmp_path / "h"), Matchers())
    told: list[Notification] = []
    position = heard(teller, told, 0)
    assert (position, told) == (0, [])
    with LiveWriter(str(tmp_path / "h"), LiveTerms(eps=12 * MS, delta=100 * MS, close_rows=40)) as writer:
        while rows:
            size = random.randrange(1, 25)
            batch, rows = rows[:size], rows[size:]
            writer.step(pa.Table.from_pylist(batch, REPORTS), now=batch[-1]["arrival"])
            position = heard(teller, told, position)
        assert 0 < len(told) < len(events)
        for seconds in (10, 1_000):
            writer.step(REPORTS.empty_table(), now=START + seconds * 1_000 * MS)
            position = heard(teller, told, position)
    named = {name_of(event): event for event in events}
    past, of = past_of(events), {id(event): name_of(event) for event in events}
    assert [each.number for each in told] == list(range(1, len(past) + 1))
    assert {each.document["event"]["name"] for each in told} == {name_of(event) for event in events if not event.lost}
    for each in told:
        document = each.document
        event = named[document["event"]["name"]]
        assert {cause["name"] for cause in document["causes"]} == {of[cause] for cause in past[id(event)]}
        lacking = {key for cause in (*document["causes"], document["event"]) for key in named[cause["name"]].lacks}
        assert {gap["message"] for gap in document["missing"] if "message" in gap} == lacking
        assert document["complete"] == (not document["missing"])
        assert not document["late"]
    alone: list[Notification] = []
    heard(teller, alone, 0, NO_CAUSES)
    assert [each.document["complete"] for each in alone] == [each.document["complete"] for each in told]
    assert {each.document["complete"] for each in alone} == {True, False}
