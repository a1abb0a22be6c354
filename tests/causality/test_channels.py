"""Sends and receives matched by channel, against a simulation that moves one byte at a time."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.causality.channel_kernels import LONGEST_STREAM_BYTES, NO_SEQ, NO_SIZE, Doubt
from ledto.causality.channel_tables import count_outcomes, match_table
from ledto.causality.channels import ChannelEnds, Matched, Unreported, match_ends
from ledto.causality.order import NO_TIME
from ledto.events.schema import REPORTS


class End(NamedTuple):
    """One row; what tests seldom set has defaults."""

    channel: int
    is_send: bool
    size: int = NO_SIZE
    process: int = 0
    time: int = 0
    clock: int = 0
    seq: int = NO_SEQ
    name: int = -1


def matched(rows: list[End]) -> Matched:
    """Row ``i`` stands at place ``i`` of one file."""

    def longs(name: str) -> Any:
        return np.array([getattr(row, name) for row in rows], np.int64)

    named = ("channel", "size", "process", "clock", "seq", "time", "name")
    file, place = np.zeros(len(rows), np.int64), np.arange(len(rows))
    is_send = np.array([row.is_send for row in rows], np.bool_)
    columns = {name: longs(name) for name in named}
    return match_ends(
        ChannelEnds(is_send=is_send, file=file, place=place, unreported=Unreported.none(len(rows)), **columns)
    )


def causes(found: Matched) -> list[list[int]]:
    return [found.causes[a:b].tolist() for a, b in zip(found.offsets, found.offsets[1:], strict=False)]


def stream(rows: list[End], channel: int, is_send: bool) -> list[int]:
    """The rows of one end in the order of their process, which has no numbers here."""
    chosen = [i for i, row in enumerate(rows) if row.channel == channel and row.is_send == is_send]
    return sorted(chosen, key=lambda i: (rows[i].time, i))


def by_bytes(rows: list[End], sends: list[int], receives: list[int]) -> dict[int, list[int | None]]:
    """Find the row that sent each byte of each receive, byte by byte; None where no row did."""
    sized = all(rows[i].size != NO_SIZE for i in (*sends, *receives))
    pipe = [i for i in sends for _ in range(rows[i].size if sized else 1)]
    taken: dict[int, list[int | None]] = {}
    for i in receives:
        length = rows[i].size if sized else 1
        got, pipe = pipe[:length], pipe[length:]
        taken[i] = [*got, *[None] * (length - len(got))]
    return taken


SIDES = st.booleans()
ONE_PROCESS_AN_END = st.lists(
    st.builds(
        lambda channel, is_send, size, time: End(channel, is_send, size, 2 * channel + is_send, time, 9 * is_send),
        st.integers(0, 2),
        SIDES,
        st.integers(0, 6),
        st.integers(0, 9),
    ),
    max_size=30,
)


@given(ONE_PROCESS_AN_END, st.booleans())
@settings(max_examples=400)
def test_every_receive_takes_the_sends_of_its_bytes(rows: list[End], by_message: bool) -> None:
    """A receive joined to the wrong send is a cause that never was, and the true one is lost."""
    if by_message:
        rows = [row._replace(size=NO_SIZE) for row in rows]
    found = matched(rows)
    unreceived = {i for i, row in enumerate(rows) if row.is_send and row.size != 0}
    for channel in {row.channel for row in rows}:
        sends, receives = stream(rows, channel, True), stream(rows, channel, False)
        assert [found.number[i] for i in sends] == list(range(len(sends)))
        taken = by_bytes(rows, sends, receives)
        surplus = bool(sends) and any(None in each for each in taken.values())
        for i, senders in taken.items():
            known = list(dict.fromkeys(each for each in senders if each is not None))
            assert causes(found)[i] == known
            assert found.missing[i] == (None in senders)
            assert found.doubts[i] & ~Doubt.LOSS == (Doubt.SURPLUS if surplus and known else 0)
            unreceived -= set(known)
    assert set(np.flatnonzero(found.unreceived).tolist()) == unreceived
    assert all(causes(found)[i] == [] for i, row in enumerate(rows) if row.is_send)


THREADS = st.lists(
    st.builds(
        lambda is_send, size, thread, time: End(0, is_send, size, 2 * thread + is_send, time, int(is_send)),
        SIDES,
        st.integers(0, 3),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=9,
)


def orders(rows: list[End], is_send: bool) -> list[list[int]]:
    """All orders in which an end may have happened: by time, and at one time any that keeps each thread's own."""

    def interleavings(queues: list[list[int]]) -> list[list[int]]:
        if not any(queues):
            return [[]]
        return [
            [queue[0], *rest]
            for at, queue in enumerate(queues)
            if queue
            for rest in interleavings([*queues[:at], queue[1:], *queues[at + 1 :]])
        ]

    found: list[list[int]] = [[]]
    for _, together in groupby(stream(rows, 0, is_send), key=lambda i: rows[i].time):
        threads = defaultdict(list)
        for i in together:
            threads[rows[i].process].append(i)
        found = [before + each for before in found for each in interleavings(list(threads.values()))]
    return found


@given(THREADS)
@settings(max_examples=300)
def test_a_match_without_doubt_holds_in_every_order_that_the_clock_allows(rows: list[End]) -> None:
    """Threads share a socket and a clock ticks slowly: a match that hangs on the order of their rows must say so."""
    found = matched(rows)
    taken_in: list[dict[int, list[int | None]]] = [
        by_bytes(rows, sends, receives) for sends in orders(rows, True) for receives in orders(rows, False)
    ]
    for i, row in enumerate(rows):
        if row.is_send or not causes(found)[i] or found.doubts[i] & Doubt.ORDER:
            continue
        assert {frozenset(taken[i]) for taken in taken_in} == {
            frozenset([*causes(found)[i], *([None] if found.missing[i] else [])])
        }


def worlds(rows: list[End]) -> list[dict[int, list[int | None]]]:
    """What each receive took, in every way in which it may have happened: any order of threads, any sends lost.

    So many are lost that what is left is enough for what was received; what was received and never sent is not explained.
    """
    sized = all(row.size != NO_SIZE for row in rows)
    amount = [row.size if sized else 1 for row in rows]
    received = sum(amount[i] for i, row in enumerate(rows) if not row.is_send)
    found = []
    for sends in orders(rows, True):
        for keeps in product((False, True), repeat=len(sends)):
            kept = [i for i, keep in zip(sends, keeps, strict=True) if keep]
            if sum(amount[i] for i in kept) >= received:
                found += [by_bytes(rows, kept, receives) for receives in orders(rows, False)]
    return found


LOSSY = st.lists(
    st.builds(
        lambda is_send, size, thread, time: End(0, is_send, size, 2 * thread + is_send, time, int(is_send)),
        SIDES,
        st.integers(0, 3),
        st.sampled_from([0, 0, 0, 1]),
        st.integers(0, 4),
    ),
    max_size=8,
)


@given(LOSSY, st.booleans(), st.data())
@settings(max_examples=600)
def test_what_is_certain_is_so_whatever_was_lost(rows: list[End], by_message: bool, data: st.DataObject) -> None:
    """A lost message shifts all that follow. A reader who is given one cause as certain would look in the wrong place."""
    if by_message:
        rows = [row._replace(size=NO_SIZE) for row in rows]
    # Reports come in any order, and some twice.
    rows = [row._replace(seq=at) for at, row in enumerate(sorted(rows, key=lambda row: row.time))]
    shuffled = data.draw(st.permutations(range(len(rows))))
    given = [rows[i] for i in shuffled] + [rows[i] for i in shuffled[:2]]
    found = matched(given)
    ways = worlds(rows)
    for at, i in enumerate(shuffled):
        took = [shuffled[cause] if cause < len(rows) else shuffled[cause - len(rows)] for cause in causes(found)[at]]
        if rows[i].is_send or not took or not ways:
            continue
        if not found.doubts[at]:
            assert {frozenset(way[i]) for way in ways} == {frozenset(took)}
        if not found.guessed[at]:
            # It happened before: whatever was taken instead was sent by the same process, then or later.
            for way, cause in product(ways, took):
                taken = [each for each in way[i] if each is not None]
                assert any(rows[each].process == rows[cause].process and each >= cause for each in taken)


@pytest.mark.parametrize(
    ("sends", "receives", "doubted"),
    [
        ((1, 1, 1), (1, 1), [True, True]),
        ((1, 1), (1, 1), [False, False]),
        # Nothing of 8 bytes is missing, so that only the last two bytes can be: those of the last send.
        ((8, 8, 8), (8, 8, 6), [False, False, False]),
        # The first may be lost; what lies within the second is of the second even so.
        ((1, 90, 9), (1, 50), [True, False]),
        ((5, 3, 5), (5, 3), [True, True]),
    ],
)
def test_losses_leave_open_what_they_can_have_shifted(sends: Any, receives: Any, doubted: list[bool]) -> None:
    """Receives that a lost message makes doubtful must be counted, and no others, or everything would be doubtful."""
    rows = [End(0, True, size, 1, at, 1) for at, size in enumerate(sends)]
    rows += [End(0, False, size, 2, at, 2) for at, size in enumerate(receives)]
    found = matched(rows)
    assert found.doubts[len(sends) :].tolist() == [Doubt.LOSS if each else 0 for each in doubted]
    assert not found.guessed.any()


def test_a_loss_among_several_senders_leaves_only_a_guess() -> None:
    """Either thread's message may be the one that arrived, and neither happened before the other."""
    two = [End(0, True, 1, 1, 1), End(0, True, 1, 2, 2)]
    found = matched([*two, End(0, False, 1, 3, 9, 1)])
    assert (found.doubts.tolist(), found.guessed.tolist()) == ([0, 0, Doubt.LOSS], [False, False, True])
    one = [End(0, True, 1, 1, 1), End(0, True, 1, 1, 2), End(0, True, 1, 2, 3)]
    found = matched([*one, End(0, False, 1, 3, 9, 1), End(0, False, 1, 3, 9, 1)])
    assert found.guessed.tolist() == [False] * 4 + [True]


def test_ties_that_cannot_change_a_match_are_no_doubt() -> None:
    """If every tie were a doubt, nobody could tell the few that matter."""
    two_threads = [End(0, True, 5, 1, 7), End(0, True, 3, 2, 7)]
    takes_both = matched([*two_threads, End(0, False, 8, 3, 9, 1)])
    assert causes(takes_both)[2] == [0, 1]
    assert takes_both.doubts.tolist() == [0, 0, 0]
    takes_a_part = matched([*two_threads, End(0, False, 2, 3, 9, 1), End(0, False, 6, 3, 9, 1)])
    assert takes_a_part.doubts.tolist() == [0, 0, Doubt.ORDER, Doubt.ORDER]
    of_one = matched([End(0, True, 8, 1, 7), End(0, False, 2, 2, 9, 1), End(0, False, 6, 3, 9, 1)])
    assert of_one.doubts.tolist() == [0, 0, 0]
    one_thread = matched([End(0, True, 1, 1, 7), End(0, True, 1, 1, 7), *[End(0, False, 1, 2, 9, 1)] * 2])
    assert one_thread.doubts.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("rows", "doubt"),
    [
        ([End(0, True, 1, 1, 5, 1), End(0, True, 1, 2, 6, 2), End(0, False, 1, 3, 9, 3)], Doubt.ORDER),
        ([End(0, True, 1, 1, NO_TIME, 1, 1), End(0, True, 1, 2, 6, 1, 1), End(0, False, 1, 3, 9, 3)], Doubt.ORDER),
        ([End(0, True, 1, 1, 5), End(0, True, 1, 1, 6), End(0, False, 1, 2, 4)], Doubt.BACKWARDS),
        ([End(0, True, 1, 1, 5), End(0, True, 1, 1, 6), End(0, False, 1, 2, 4, 1)], 0),
        ([End(0, True, 1, 1, 5), End(0, True, NO_SIZE, 1, 6), End(0, False, 7, 2, 8)], Doubt.SIZES),
    ],
    ids=["several clocks", "a row without a time", "one clock, backwards", "two clocks", "sizes not everywhere"],
)
def test_what_the_rows_leave_open_is_said(rows: list[End], doubt: int) -> None:
    """A guess that looks like knowledge sends a reader after the wrong cause."""
    found = matched(rows)
    assert causes(found)[2] == [0]
    assert found.doubts[2] & ~Doubt.LOSS == doubt
    assert found.guessed[2] == bool(doubt)


def test_numbers_come_before_times() -> None:
    """A clock that is set back does not turn what a process wrote first into what it wrote last."""
    rows = [End(0, True, 1, 1, 50, seq=1), End(0, True, 1, 1, 40, seq=2), End(0, True, 1, 2, 45, seq=1)]
    found = matched([*rows, *(End(0, False, 1, 3, 60 + n, 1) for n in range(3))])
    assert [causes(found)[i] for i in (3, 4, 5)] == [[2], [0], [1]]


def test_a_report_that_came_twice_is_one_message() -> None:
    """Collectors deliver twice; a copy counted as a message would shift all that follows."""
    rows = [End(0, True, 4, 1, 1, seq=1), End(0, True, 4, 1, 1, seq=1), End(0, True, 4, 1, 2, seq=2)]
    rows += [End(0, False, 4, 2, 5, 1, name=3), End(0, False, 4, 2, 5, 1, name=3), End(0, False, 4, 2, 5, 1, name=4)]
    found = matched(rows)
    assert found.number.tolist() == [0, 0, 1, 0, 0, 1]
    assert causes(found)[3:] == [[0], [0], [2]]
    assert found.copy.tolist() == [False, True, False, False, True, False]


def test_absurd_sizes_do_not_overflow() -> None:
    """One damaged count must not make all others negative."""
    huge = 2**63 - 1
    found = matched(
        [End(0, True, huge, 1, 1), End(0, True, huge, 1, 2), End(0, False, 9, 2, 3), End(0, False, huge, 2, 4)]
    )
    assert causes(found)[2:] == [[0], [0]]
    assert huge > LONGEST_STREAM_BYTES


def table(*rows: dict[str, Any]) -> pa.Table:
    blank = dict.fromkeys(REPORTS.names) | {"computation": "", "file": "f", "channel_key": "a>b"}
    return pa.Table.from_pylist([blank | {"place": at} | row for at, row in enumerate(rows)], schema=REPORTS)


def test_two_reads_of_one_write_at_one_time_stay_two_events() -> None:
    """Equal in process, time and message, they would be taken for one report that came twice, and one of them lost."""
    read = {"process": "b", "kind": "receive", "time": 7}
    sizes = [{"channel_bytes": size} for size in (2, 3, 1)]
    send, sure = {"process": "a", "kind": "send", "time": 1, "channel_bytes": 7}, {"channel_bytes": 1, "id": "e"}
    rows, _ = match_table(table(send, *(read | size for size in sizes), read | sure, read | sure))
    first, *reads = rows.to_pylist()
    assert [row["receives"] for row in reads[:3]] == [first["sends"]] * 3
    names = [row["sends"] for row in reads]
    assert len({first["sends"], *names[:3]}) == 4
    assert names[3:] == [None, None]


def test_rows_get_the_names_of_messages() -> None:
    """What the pipeline orders by: every receive names its sends, and what is missing, in words a reader understands."""
    send = {"process": "a", "kind": "send"}
    receive = {"process": "b", "kind": "receive"}
    rows, outcomes = match_table(
        table(
            send | {"time": 1, "channel_bytes": 5, "receives": "kept"},
            send | {"time": 2, "channel_bytes": 3},
            receive | {"time": 1, "channel_bytes": 7},
            receive | {"time": 2, "channel_bytes": 0},
            receive | {"time": 3, "channel_bytes": 2},
            send | {"time": 1, "computation": "other"},
            receive | {"time": 1, "channel_key": "x>b", "sends": "kept"},
        )
    )
    kept = rows.select(["sends", "receives", "receives_more"]).to_pylist()
    assert [tuple(row.values()) for row in kept] == [
        ("channel a>b #0", "kept", None),
        ("channel a>b #1", None, None),
        (None, "span in channel a>b", None),
        (None, None, None),
        (None, "span in channel a>b", None),
        ("channel a>b #0", None, None),
        ("kept", "span in channel x>b", None),
    ]
    assert rows["channel_key"].null_count == rows["channel_bytes"].null_count == 7
    assert rows.schema == REPORTS
    assert count_outcomes(outcomes) == {
        "matched": 0,
        "unmatched_sends": 1,
        "unmatched_receives": 2,
        "ambiguous": 2,
        "ambiguous_loss": 0,
        "ambiguous_order": 0,
        "ambiguous_surplus": 2,
        "ambiguous_backwards": 0,
        "ambiguous_sizes": 0,
        "ambiguous_reports": 0,
        "left_out": 2,
    }


def test_what_may_have_been_a_later_send_says_so_and_what_is_a_guess_has_no_cause() -> None:
    """Of three messages one was lost. The nth receive follows the nth send of one sender; of two senders, nobody knows."""
    send = {"kind": "send", "clock_name": "c"}
    receive = {"process": "b", "kind": "receive"}
    one = [send | {"process": "a", "time": at} for at in (1, 2, 3)]
    twice = [receive | {"time": at} for at in (1, 2)]
    rows, outcomes = match_table(table(*one, one[0] | {"seq": None, "id": "x"}, *twice, receive | {"time": 3}))
    names = [f"channel a>b #{number}" for number in range(4)]
    given = rows.select(["sends", "receives"]).to_pylist()
    assert [row["sends"] for row in given[:4]] == [
        f"{names[0]} or later",
        f"{names[2]} or later",
        names[3],
        f"{names[1]} or later",
    ]
    assert [row["receives"] for row in given[4:]] == [f"{name} or later" for name in names[:3]]
    counted = count_outcomes(outcomes)
    assert (counted["matched"], counted["ambiguous_loss"], counted["left_out"]) == (3, 3, 0)
    one[1]["process"] = one[2]["process"] = "a2"
    rows, outcomes = match_table(table(*one, *twice))
    assert [row["receives"] for row in rows.to_pylist()[3:]] == ["span in channel a>b", "channel a>b #1 or later"]
    counted = count_outcomes(outcomes)
    assert (counted["matched"], counted["ambiguous"], counted["left_out"]) == (1, 2, 1)
