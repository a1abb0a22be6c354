"""Clocks that cannot be told apart, against simulated messages whose clocks are known."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.skew.pairs import WIDEST, ClockPairs, count_pairs, no_pairs
from ledto.skew.same_clocks import SameClocks, find_same_clocks

MS = 1_000_000
START = 1_700_000_000_000 * MS
Told = tuple[str, str, int, int]
"""Clocks of the sender and of the receiver, and the times that they show."""


def cells(told: list[Told]) -> ClockPairs:
    names = sorted({name for each in told for name in each[:2]})
    columns = [np.array([names.index(each[side]) for each in told], np.int32) for side in (0, 1)]
    times = [np.array([each[side] for each in told], np.int64) for side in (2, 3)]
    return count_pairs(names, *columns, *times, np.arange(len(told)), level=WIDEST)


def calls(random: Random, ahead: dict[str, int], path: tuple[str, ...], count: int) -> tuple[list[Told], list[Told]]:
    """Requests from each service of the path to the next, and answers as traces tell them; delays of 0.1 to 3 ms."""
    requests, answers = [], []
    for number in range(count):
        now = START + number * 50 * MS
        for client, server in pairwise(path):
            began = now + random.randrange(MS // 10, 3 * MS)
            ended = began + random.randrange(2 * MS // 10, 9 * MS)
            requests.append((client, server, now + ahead[client], began + ahead[server]))
            answers.append((server, client, began + ahead[server], ended + ahead[client]))
            now = began
    return requests, answers


def found(requests: list[Told], answers: list[Told], **options: object) -> tuple[SameClocks, ...]:
    made = cells(answers) if answers else no_pairs(WIDEST)
    return find_same_clocks(cells(requests), made, **{"resolution": {}, "left_out": ()} | options)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_three_services_on_one_clock_come_out_as_one(seed: int) -> None:
    """Who traces three processes of one machine should not be told that nothing is known of their clocks."""
    ahead = dict.fromkeys(("oweb", "oorders", "opay"), 0)
    requests, answers = calls(Random(seed), ahead, ("oweb", "oorders", "opay"), 40)
    [same] = found(requests, answers)
    assert same.names == ("oorders", "opay", "oweb")
    assert same.by_answers
    assert same.apart < 5 * MS
    assert not found(requests, []), "requests alone bound each clock on one side"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wrong", [-5 * MS, 5 * MS])
def test_a_clock_five_milliseconds_off_is_told_apart(seed: int, wrong: int) -> None:
    """Some request took less than that, and so did some answer; to call them one clock would be false."""
    ahead = {"oweb": 0, "oorders": 0, "opay": wrong}
    [same] = found(*calls(Random(seed), ahead, ("oweb", "oorders", "opay"), 40))
    assert same.names == ("oorders", "oweb")


def test_messages_both_ways_need_no_answers() -> None:
    """Then it is a proof, and no assumption is named."""
    told = [("a", "b", START, START + 2 * MS), ("b", "a", START + 9 * MS, START + 12 * MS)]
    assert found(told, []) == (SameClocks(("a", "b"), 3 * MS, False),)
    assert found(told, [], resolution={"a": 10 * MS}) == (SameClocks(("a", "b"), 13 * MS, False),)
    assert found(told, [], left_out=["a"]) == ()


def test_answers_that_contradict_messages_were_not_waited_for() -> None:
    """A client that goes on at once must not make two clocks of one, nor take away what messages prove."""
    told = [("a", "b", START, START + 2 * MS), ("b", "a", START, START + 2 * MS)]
    assert found(told, [("b", "a", START + 2 * MS, START - 90 * MS)]) == (SameClocks(("a", "b"), 2 * MS, False),)


@given(st.randoms(use_true_random=False), st.lists(st.sampled_from([0, MS, 4 * MS, -7 * MS]), min_size=2, max_size=7))
def test_no_two_of_a_set_differ_by_more_than_is_told(random: Random, offsets: list[int]) -> None:
    """Whatever the clocks and the calls are: a bound that is not true is worse than none."""
    ahead = {f"p{number}": offset for number, offset in enumerate(offsets)}
    requests: list[Told] = []
    answers: list[Told] = []
    for _ in range(len(offsets)):
        path = tuple(random.sample(sorted(ahead), random.randint(2, min(4, len(ahead)))))
        more = calls(random, ahead, path, random.randint(1, 10))
        requests += more[0]
        answers += more[1]
    sets = found(requests, answers)
    members = [name for each in sets for name in each.names]
    assert len(members) == len(set(members))
    for each in sets:
        for one, other in combinations(each.names, 2):
            assert abs(ahead[one] - ahead[other]) <= each.apart
    # Two that talk both ways, on one clock, may only be apart in the sets because each fits with others.
    for one, other in combinations(sorted(ahead), 2):
        direct = {(a, b) for a, b, _, _ in requests}
        if ahead[one] == ahead[other] and ((one, other) in direct or (other, one) in direct):
            assert one in members or other in members
