"""Channels with lost reports, where numbers show it: what is matched holds in every execution that fits the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.causality.channel_tables import match_channels_in
from ledto.events.keys import SPAN
from ledto.events.schema import REPORTS

SIZES = (1, 3)
"""Of messages that nobody reported, where bytes are counted."""


@dataclass(frozen=True)
class Event:
    """One event of a process; `time` is by the clock of its end, and None if nobody reported it."""

    process: str
    seq: int
    kind: str
    size: int
    time: int | None

    @property
    def id(self) -> str:
        return f"{self.process}:{self.seq}"


@st.composite
def ends(draw: st.DrawFn, name: str, kind: str) -> list[Event]:
    """The events of one end, as they happened, by one process or two; of some, the report was lost."""
    processes = draw(st.sampled_from([[name], [name], [name + "1", name + "2"]]))
    count, seqs = draw(st.integers(1, 5)), dict.fromkeys(processes, 0)
    lost = draw(st.sets(st.integers(0, count), max_size=2))
    found = []
    for at in range(count):
        process = draw(st.sampled_from(processes))
        seqs[process] += 1
        what = kind if draw(st.integers(0, 4)) else "local"
        found.append(Event(process, seqs[process], what, draw(st.integers(1, 3)), None if at in lost else at))
    # What is lost at the end of a log shows nowhere.
    last = {event.process: event.seq for event in found if event.time is not None}
    return [event for event in found if event.seq <= last.get(event.process, 0)]


def executions(end: list[Event], kind: str, sizes: tuple[int, ...]) -> Iterator[list[Event]]:
    """All that may have happened at one end: each event that nobody reported at any time, and of any kind.

    Who uses the channel is taken to have reported that once at least.
    """
    reported, lost = ([event for event in end if (event.time is None) == gone] for gone in (False, True))
    users = {event.process for event in reported if event.kind == kind}
    ways = [("local", 1), *((kind, size) for size in sizes)]
    for kinds in product(*(ways if event.process in users else ways[:1] for event in lost)):
        orders = [reported]
        for event, (what, size) in zip(lost, kinds, strict=True):
            guess = Event(event.process, event.seq, what, size, None)
            orders = [
                [*order[:at], guess, *order[at:]]
                for order in orders
                for at in range(len(order) + 1)
                if all(other.process != event.process or other.seq < event.seq for other in order[:at])
                and all(other.process != event.process or other.seq > event.seq for other in order[at:])
            ]
        yield from orders


def takings(sends: list[Event], receives: list[Event]) -> Iterator[dict[str, list[Event]]]:
    """Yield the sends that each receive took, for every choice of lost messages."""
    wanted = sum(event.size for event in receives)
    for count in range(len(sends) + 1):
        for kept in combinations(sends, count):
            pipe = [event for event in kept for _ in range(event.size)]
            if len(pipe) >= wanted:
                at, taken = 0, {}
                for event in receives:
                    taken[event.id], at = pipe[at : at + event.size], at + event.size
                yield taken


def past_of(receiver: Event, receives: list[Event], taken: dict[str, list[Event]]) -> set[str]:
    """What an event of a receiving process follows, of the sending processes: in each, all up to what was taken."""
    return {
        f"{cause.process}:{seq}"
        for event in receives
        if event.process == receiver.process and event.seq <= receiver.seq
        for cause in taken.get(event.id, [])
        for seq in range(1, cause.seq + 1)
    }


def rows_of(events: list[Event], *, in_bytes: bool) -> list[dict[str, Any]]:
    found = []
    for event in events:
        if event.time is not None:
            row = dict.fromkeys(REPORTS.names) | {"computation": "", "file": "f", "place": event.time, "id": event.id}
            row |= {"process": event.process, "clock_name": event.process[0], "seq": event.seq, "time": event.time}
            row |= {"kind": event.kind, "channel_key": None if event.kind == "local" else "a>b"}
            found.append(row | {"channel_bytes": event.size if in_bytes and event.kind != "local" else None})
    return found


@settings(max_examples=400, deadline=None)
@given(ends("a", "send"), ends("b", "receive"), st.booleans())
def test_what_is_said_holds_in_every_execution_that_fits_the_rows(
    sent: list[Event], received: list[Event], in_bytes: bool
) -> None:
    """One lost report shifts all that follow. Who then counts on as if nothing were missing names causes that never were,
    and calls events concurrent of which one led to the other."""
    if not in_bytes:
        sent, received = ([Event(*(e.process, e.seq, e.kind, 1, e.time)) for e in end] for end in (sent, received))
    rows = pa.Table.from_pylist(rows_of([*sent, *received], in_bytes=in_bytes), REPORTS)
    named = match_channels_in(rows)[0].to_pylist()
    sender = {row["sends"]: row["id"] for row in named if row["sends"]}
    by_id = {event.id: event for event in (*sent, *received)}
    keys = {row["id"]: [row["receives"], *(row["receives_more"] or [])] for row in named if row["receives"]}
    said = {name: [by_id[sender[key]] for key in each if key in sender] for name, each in keys.items()}
    lacking = {name for name, each in keys.items() if any(key.startswith(SPAN) for key in each)}
    lacking |= {event.id for event in (*sent, *received) if event.time is None}

    def is_tainted(event: Event) -> bool:
        return any(f"{event.process}:{seq}" in lacking for seq in range(1, event.seq + 1))

    sizes = SIZES if in_bytes else (1,)
    ways = [
        (receives, taken)
        for sending in executions(sent, "send", sizes)
        for receives in executions(received, "receive", sizes)
        for taken in takings(
            [event for event in sending if event.kind == "send"],
            [event for event in receives if event.kind == "receive"],
        )
    ]
    for event in received:
        if event.time is None:
            continue
        before = past_of(event, received, said)
        certain = [other.id for other in sent if other.time is not None and not is_tainted(other)]
        for receives, taken in ways:
            true = past_of(event, receives, taken)
            assert before <= true, (event, before, true)
            if not is_tainted(event):
                assert true & set(certain) <= before, (event, before, true)


def test_after_a_lost_report_receives_follow_the_sends_that_are_certain() -> None:
    """If one lost report ended all matching, nothing of a long log would be known; so it only lags behind by as many."""
    sent = [Event("a", seq, "send", 1, None if seq == 3 else seq) for seq in range(1, 7)]
    received = [Event("b", seq, "receive", 1, seq) for seq in range(1, 6)]
    table = pa.Table.from_pylist(rows_of([*sent, *received], in_bytes=False), REPORTS)
    named = {row["id"]: row for row in match_channels_in(table)[0].to_pylist()}
    follows = {name: named[f"b:{name}"]["receives"] for name in range(1, 6)}
    assert follows == {
        1: named["a:1"]["sends"],
        2: named["a:2"]["sends"],
        3: f"{SPAN}in channel a>b",
        4: named["a:4"]["sends"],
        5: named["a:5"]["sends"],
    }
