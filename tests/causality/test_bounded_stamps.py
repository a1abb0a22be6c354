"""Stamps computed from stored rows, against clocks that run, and against themselves in pieces."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.causality.bounded_stamps import default_tick, eps_ticks, stamp_known_rows, stamp_rows
from ledto.causality.skeleton import Skeleton
from ledto.clocks import BoundedClock, BoundedStamp
from ledto.errors import ClockDrift

Row = tuple[int, int, int, list[int]]
"""Process, time, causal time, causes other than the row before of the process."""


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Row], int, int]:
    """Rows in history order, eps and tick; times of a process never fall, as a clock demands."""
    random = Random(draw(st.integers(0, 1 << 32)))
    processes, count = draw(st.sampled_from([1, 2, 3, 6])), draw(st.sampled_from([0, 1, 6, 30, 80]))
    eps = draw(st.sampled_from([0, 1, 7, 16, 50]))
    tick = draw(st.sampled_from([1, 2, 5, default_tick(eps)]))
    ahead = [random.randint(0, eps) for _ in range(processes)]
    clock, rows, last = 0, [], {}
    for _ in range(count):
        clock += random.choice((0, 0, 1, 2, 9))
        process = random.randrange(processes)
        causes = random.sample(range(len(rows)), min(len(rows), random.choice((0, 0, 1, 1, 3))))
        earlier = [rows[cause][2] for cause in causes] + ([rows[last[process]][2]] if process in last else [])
        time = clock + ahead[process]
        last[process] = len(rows)
        rows.append((process, time, max([time, *earlier]), causes))
    order = sorted(range(count), key=lambda row: (rows[row][2], row))
    place = {row: at for at, row in enumerate(order)}
    return [(*rows[row][:3], [place[cause] for cause in rows[row][3]]) for row in order], eps, tick


def skeleton_of(rows: list[Row], start: int, stop: int) -> Skeleton:
    part = rows[start:stop]
    offsets = np.cumsum([0] + [len(row[3]) for row in part])
    back = [start + at - cause for at, row in enumerate(part) for cause in row[3]]
    return Skeleton(np.array([row[0] for row in part], np.int32), offsets, np.array(back, np.int64))


def stamped(rows: list[Row], start: int, stop: int, eps: int, tick: int, elements: int | None) -> list[tuple[int, ...]]:
    part = rows[start:stop]
    time, causal = (np.array([row[at] for row in part], np.int64) for at in (1, 2))
    found = stamp_rows(skeleton_of(rows, start, stop), time, causal, eps=eps, tick=tick, elements=elements)
    return [(r, c, *kn) for r, c, kn in zip(found.r.tolist(), found.c.tolist(), found.kn.tolist(), strict=True)]


def clocks_run(rows: list[Row], eps: int, tick: int) -> list[tuple[int, ...]]:
    """One clock a process, fed with the rows in turn."""
    now = [0]
    processes = {row[0] for row in rows}
    ticks = eps_ticks(eps, tick)
    clocks = {each: BoundedClock(f"p{each}", ticks, 0, physical=lambda: now[0]) for each in processes}
    stamps: list[BoundedStamp] = []
    for process, time, _, causes in rows:
        now[0] = time // tick
        if not causes:
            stamps.append(clocks[process].local())
            continue
        # An event with several causes receives what they know together, once.
        top = max(stamps[cause].r + stamps[cause].c for cause in causes)
        seen = [0] * (ticks + 1)
        for cause in causes:
            heard = stamps[cause]
            for at, known in enumerate(heard.kn):
                lower = top - (heard.r + heard.c - at)
                if lower <= ticks:
                    seen[lower] = max(seen[lower], known)
        stamps.append(clocks[process].receive(BoundedStamp("all", top, 0, tuple(seen))))
    return [(stamp.r, stamp.c, *stamp.kn) for stamp in stamps]


@given(histories(), st.data())
def test_stamps_are_those_of_clocks_that_ran(case: tuple[list[Row], int, int], data: st.DataObject) -> None:
    """Events from plain logs would be delivered in another order than the same events stamped by the application."""
    rows, eps, tick = case
    truth = clocks_run(rows, eps, tick)
    elements = data.draw(st.none() | st.integers(0, eps_ticks(eps, tick) + 1))
    assert stamped(rows, 0, len(rows), eps, tick, elements) == [
        stamp[: None if elements is None else 2 + elements] for stamp in truth
    ]


@given(histories())
def test_every_piece_with_its_warm_up(case: tuple[list[Row], int, int]) -> None:
    """Stamps, and so the order of events, would depend on how a history was cut into segments."""
    rows, eps, tick = case
    truth = clocks_run(rows, eps, tick)
    for start in range(len(rows)):
        first = (rows[start][2] // tick - eps_ticks(eps, tick)) * tick
        warm_up = sum(row[2] < first for row in rows)
        found = stamped(rows, warm_up, len(rows), eps, tick, None)
        assert found[start - warm_up :] == truth[start:]


def test_a_time_that_goes_back_within_a_process() -> None:
    """One log line with a clock set back would stop everything, though its causal time is still within eps."""
    rows: list[Row] = [(0, 10, 10, []), (0, 7, 10, []), (1, 4, 10, [1]), (0, 12, 12, [])]
    found = stamped(rows, 0, 4, 8, 1, None)
    assert [stamp[:2] for stamp in found] == [(10, 0), (7, 3), (4, 6), (12, 0)]
    keys = [(stamp[0] + stamp[1], *stamp[2:]) for stamp in found]
    assert keys == sorted(set(keys))


def test_what_makes_no_sense_is_refused() -> None:
    """An eps that the times break would give stamps that contradict causality without a word."""
    rows: list[Row] = [(0, 10, 10, []), (1, 4, 10, [0])]
    with pytest.raises(ClockDrift, match="row 1 has the time 4 and the causal time 10, and eps is 5"):
        stamped(rows, 0, 2, 5, 1, None)
    with pytest.raises(ValueError, match="tick is 1 or more"):
        stamped(rows, 0, 2, 8, 0, None)
    with pytest.raises(ValueError, match="carry 0 to 9 elements, not 10"):
        stamped(rows, 0, 2, 8, 1, 10)
    with pytest.raises(ValueError, match="or a tick of 625000"):
        stamped(rows, 0, 2, 10_000_000, 1, None)


def test_the_default_tick_keeps_stamps_short() -> None:
    """Stamps of a history in nanoseconds would take a number for each nanosecond of eps."""
    for eps in (0, 1, 15, 16, 17, 33, 10**7, 10**9 + 1):
        assert eps_ticks(eps, default_tick(eps)) <= 16
    assert default_tick(10**7) == 625_000


@given(histories(), st.integers(0, 1 << 32))
def test_what_is_known_in_time_is_stamped_and_nothing_else(history: tuple[list[Row], int, int], seed: int) -> None:
    """A live history must stamp as the batch does while all is known, and never by a report that had not come."""
    rows, eps, tick = history
    ticks = eps_ticks(eps, tick)
    skeleton, everything = skeleton_of(rows, 0, len(rows)), np.ones(len(rows), np.bool_)
    r = np.array([row[1] for row in rows], np.int64) // tick
    whole = stamp_known_rows(skeleton, r, everything, everything, most_c=ticks, elements=ticks + 1)
    found = [(one, c, *kn) for one, c, kn in zip(r.tolist(), whole.c.tolist(), whole.kn.tolist(), strict=True)]
    assert found == stamped(rows, 0, len(rows), eps, tick, None)
    random = Random(seed)
    informed = np.array([random.random() < 0.5 for _ in rows], np.bool_)
    some = stamp_known_rows(skeleton, r, everything, informed, most_c=ticks, elements=ticks + 1)
    alone = [1] + [0] * ticks
    assert not some.c[~informed].any()
    assert all(kn == alone for kn in some.kn[~informed].tolist())
