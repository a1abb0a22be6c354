"""Cells of messages, against counting them one by one, for every way of cutting them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.skew.pairs import (
    MAX_BINS,
    NO_NEXT,
    ClockPairs,
    bins_for,
    count_pairs,
    fit_pairs,
    joined_bins,
    merge_pairs,
    no_pairs,
    occupied_bins,
)

Message = tuple[str, str, int, int, int]
"""Sender, receiver, send time, receive time, position."""
FAR = 1_700_000_000_000_000_000


def drawn(random: Random) -> list[Message]:
    base = random.choice((0, FAR, -FAR))
    names = random.sample("abcdef", random.choice((2, 3, 6)))
    messages = []
    for position in range(random.choice((0, 1, 5, 60))):
        sent = base + random.randrange(random.choice((10, 3_000)))
        messages.append((*random.choices(names, k=2), sent, sent + random.randint(-4, 40), position))
    return messages


def cells_of(messages: list[Message], random: Random, level: int) -> ClockPairs:
    """As a task would: with names in an order of its own, some of which do not occur."""
    names = [*"abcdefxy"]
    random.shuffle(names)
    sender, receiver = (np.array([names.index(each[at]) for each in messages], np.int32) for at in (0, 1))
    send, receive, position = (np.array([each[at] for each in messages], np.int64) for at in (2, 3, 4))
    return count_pairs(names, sender, receiver, send, receive, position, level=level)


def counted(messages: list[Message], level: int) -> dict[tuple[str, str, int, int], tuple[int, ...]]:
    groups = defaultdict(list)
    for sender, receiver, sent, received, position in messages:
        cell = (sender, receiver, sent // 2**level, received // 2**level)
        groups[cell].append((received - sent, sent, position))
    found = {}
    for cell, members in groups.items():
        (least, sent, position), *others = sorted(members)
        differences = [each[0] for each in members]
        found[cell] = (
            len(members),
            least,
            sent,
            position,
            others[0][0] if others else NO_NEXT,
            max(differences),
            sum(each < 0 for each in differences),
            differences.count(0),
        )
    return found


def told(pairs: ClockPairs) -> dict[tuple[str, str, int, int], tuple[int, ...]]:
    columns = [getattr(pairs, field.name).tolist() for field in fields(pairs) if field.name not in ("names", "level")]
    rows = list(zip(*columns, strict=True))
    found = {(pairs.names[row[0]], pairs.names[row[1]], row[2], row[3]): row[4:] for row in rows}
    assert len(found) == len(rows)
    return found


@given(st.integers(0, 1 << 32), st.sampled_from([0, 3, 8, 40]))
def test_cells_of_every_cutting_are_those_counted_one_by_one(seed: int, level: int) -> None:
    """A history made with other epochs would show other clocks, or count messages twice where it was cut."""
    random = Random(seed)
    messages = drawn(random)
    expected = counted(messages, level)
    assert told(cells_of(messages, random, level)) == expected
    parts: list[list[Message]] = [[] for _ in range(random.choice((1, 2, 5)))]
    for message in messages:
        random.choice(parts).append(message)
    whole = merge_pairs([no_pairs(level), *(cells_of(part, random, level) for part in parts)])
    assert told(whole) == expected
    assert list(whole.names) == sorted({name for message in messages for name in message[:2]})
    keys = list(told(whole))
    assert keys == sorted(keys)


@given(st.integers(0, 1 << 32), st.integers(1, 40))
def test_too_many_cells_are_joined_by_widening_bins_no_further_than_needed(seed: int, most: int) -> None:
    """Many clocks over a long time would fill the driver's memory, or lose more of time than they must."""
    random = Random(seed)
    messages = drawn(random)
    found = fit_pairs(cells_of(messages, random, 0), most=most)
    assert told(found) == counted(messages, found.level)
    if len(found) > most:
        assert found.level == 63
    elif found.level:
        assert len(counted(messages, found.level - 1)) > most


@given(st.integers(0, 1 << 32), st.integers(1, 20))
def test_bins_are_the_narrowest_however_times_are_cut(seed: int, most: int) -> None:
    """Tasks would sort times into other bins than their neighbours, or one clock at 1970 would blur all others."""
    random = Random(seed)
    base = random.choice((0, FAR))
    times = [base + random.randrange(random.choice((5, 10_000))) for _ in range(random.choice((1, 7, 90)))]
    times += random.choice(([], [3], [-FAR]))
    whole = occupied_bins(np.array(times), most=most)
    cut = random.randrange(len(times))
    parts = [occupied_bins(np.array(part, np.int64), most=most) for part in (times[:cut], times[cut:])]
    joined = joined_bins(parts, most=most)
    assert joined.level == whole.level
    assert joined.occupied.tolist() == whole.occupied.tolist() == sorted({time >> whole.level for time in times})
    assert len(whole.occupied) <= most or whole.level == 63
    assert whole.level == 0 or len({time >> (whole.level - 1) for time in times}) > most


def test_fewer_bins_for_more_clocks() -> None:
    """A hundred clocks that all talk to each other would have millions of cells."""
    assert bins_for(1) == bins_for(10) == MAX_BINS
    assert MAX_BINS > bins_for(50) >= bins_for(100_000) > 1


def test_cells_of_different_widths_are_refused() -> None:
    """Bins of two widths side by side would count nothing wrong and mean nothing."""
    with pytest.raises(ValueError, match="choose one level"):
        merge_pairs([no_pairs(1), no_pairs(2)])
