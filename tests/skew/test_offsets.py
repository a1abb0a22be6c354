"""Estimates of clocks, against the clocks that made the messages. Delays are whatever they are, but never negative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.skew import offsets as module
from ledto.skew.offsets import ClockEstimate, Offsets, estimate_offsets
from ledto.skew.pairs import bins_for, count_pairs, fit_pairs, occupied_bins

MILLION = 10**6
START = 1_700_000_000 * MILLION
"""True time is in millionths of a second, and a multiple of a second, so that drift in ppm is exact in integers."""
Clock = Callable[[int], int]
Sent = tuple[int, int, int, int]
"""Sender, receiver, and the true times of both ends."""


def steady(offset: int, ppm: int = 0) -> Clock:
    return lambda true: true + offset + (true - START) // MILLION * ppm


def stepping(clock: Clock, at: int, by: int) -> Clock:
    return lambda true: clock(true) + (by if true >= at else 0)


def estimate(clocks: list[Clock], sent: list[Sent], *, resolution: int = 0) -> Offsets:
    names = [f"c{number:03d}" for number in range(len(clocks))]

    def read(clock: int, true: int) -> int:
        shown = clocks[clock](true)
        return shown // resolution * resolution if resolution else shown

    rows = np.array([(a, b, read(a, left), read(b, came)) for a, b, left, came in sent], np.int64).reshape(-1, 4)
    bins = occupied_bins(rows[:, 2:].ravel(), most=bins_for(len(clocks)))
    pairs = count_pairs(
        names,
        rows[:, 0].astype(np.int32),
        rows[:, 1].astype(np.int32),
        rows[:, 2].copy(),
        rows[:, 3].copy(),
        np.arange(len(rows)),
        level=bins.level,
    )
    return estimate_offsets(fit_pairs(pairs), resolution=dict.fromkeys(names, resolution))


def number(name: str) -> int:
    return int(name[1:])


def chatter(random: Random, clocks: int, messages: int, *, seconds: int = 100_000, slow: int = 3) -> list[Sent]:
    """Messages between all clocks that take some seconds, or none."""
    found = []
    for _ in range(messages):
        a, b = random.sample(range(clocks), 2)
        left = START + random.randrange(seconds) * MILLION
        found.append((a, b, left, left + random.choice((0, 0, 1, random.randint(0, slow))) * MILLION))
    return found


@given(st.integers(0, 1 << 32))
def test_constant_offsets_lie_within_bounds_that_are_the_tightest(seed: int) -> None:
    """Someone would trust an offset that is not so, or be told that nothing is known where something is."""
    random = Random(seed)
    count = random.choice((2, 3, 5))
    truth = [random.randint(-5_000, 5_000) for _ in range(count)]
    directions = random.sample([*permutations(range(count), 2)], random.randint(1, count * (count - 1)))
    sent = []
    for _ in range(random.choice((1, 6, 60))):
        left = START + random.randrange(5_000)
        sent.append((*random.choice(directions), left, left + random.choice((0, random.randint(0, 900)))))
    found = estimate([steady(offset) for offset in truth], sent)

    least: dict[tuple[int, int], int] = {}
    for a, b, left, came in sent:
        shown = came + truth[b] - left - truth[a]
        least[a, b] = min(shown, least.get((a, b), shown))

    def at_most(a: int, b: int) -> int | None:
        """The least sum along any way from a to b, by trying them all."""
        others = [clock for clock in range(count) if clock not in (a, b)]
        ways = [
            [least.get(step) for step in zip((a, *via), (*via, b), strict=True)]
            for size in range(len(others) + 1)
            for via in permutations(others, size)
        ]
        return min((sum(way) for way in ways if None not in way), default=None)

    apart = 0
    for clock in found.clocks:
        assert clock.reference is not None
        own, reference = number(clock.name), number(clock.reference)
        if own == reference:
            assert (clock.verdict, clock.low, clock.high) == (module.REFERENCE, 0, 0)
            continue
        true = truth[own] - truth[reference]
        apart = max(apart, abs(true))
        lowest = at_most(own, reference)
        assert clock.high == at_most(reference, own)
        assert clock.low == (None if lowest is None else -lowest)
        assert clock.low is None or clock.low <= true
        assert clock.high is None or true <= clock.high
        if clock.verdict in (module.AHEAD, module.BEHIND, module.AGREES):
            assert clock.low is not None
            assert clock.high is not None
        one_sided = (clock.low is None) != (clock.high is None)
        assert clock.verdict == module.FAR_OFF or (clock.verdict == module.ONE_SIDED) == one_sided
        assert (clock.verdict == module.UNKNOWN) == (clock.low is None and clock.high is None)
    if found.eps_high is not None and found.groups == 1:
        assert apart <= found.eps_high
    assert found.eps_low <= max(truth) - min(truth)


def test_messages_that_take_no_time_tell_the_offset() -> None:
    """Bounds that are wider than the messages make them would hide that a clock is wrong."""
    truth = [0, 40, -7, 1_000_000]
    sent = [(a, b, START + at, START + at) for at, (a, b) in enumerate(permutations(range(4), 2))]
    found = estimate([steady(offset) for offset in truth], sent)
    reference = truth[number(str(found.clocks[0].reference))]
    assert reference in (0, 40)
    for clock, offset in zip(found.clocks, truth, strict=True):
        assert clock.low == clock.high == clock.offset == offset - reference
    assert found.eps_low == found.eps_high == 1_000_007


def ahead_at(clock: Clock, reference: Clock, moment: int) -> Fraction:
    """How far ahead a steady clock is when the reference shows `moment`."""
    rate = Fraction(reference(START + MILLION) - reference(START), MILLION)
    true = START + (moment - reference(START)) / rate
    own = Fraction(clock(START + MILLION) - clock(START), MILLION)
    return clock(START) + (true - START) * own - moment


def check_tracks(found: Sequence[ClockEstimate], clocks: list[Clock]) -> None:
    for each in found:
        reference = clocks[number(str(each.reference))]
        for moment in each.track:
            true = ahead_at(clocks[number(each.name)], reference, moment.time)
            assert moment.low is None or moment.low <= true
            assert moment.high is None or true <= moment.high


@given(st.integers(0, 1 << 32))
def test_drifting_clocks_lie_within_their_bounds_at_all_times(seed: int) -> None:
    """A clock that gains a second a week would be called broken, or corrected to something that never was."""
    random = Random(seed)
    count = random.choice((2, 3, 6))
    drifts = [random.choice((0, random.randint(-200, 200))) for _ in range(count)]
    shifts = [random.choice((0, random.randint(-3_600, 3_600) * MILLION)) for _ in range(count)]
    clocks = [steady(shift, drift) for shift, drift in zip(shifts, drifts, strict=True)]
    found = estimate(clocks, chatter(random, count, random.choice((5, 50, 400)), slow=random.choice((0, 3, 500))))
    assert not [each for each in found.broken if each.verdict != module.FAR_OFF]
    # Of clocks with so few messages that constant offsets explain them, that is what is said.
    drifting = [each for each in found.clocks if len(each.track) > 2]
    check_tracks(drifting, clocks)
    for each in drifting:
        rates = [MILLION + drifts[number(name)] for name in (each.name, str(each.reference))]
        true = (Fraction(*rates) - 1) * MILLION
        assert each.drift_low_ppm is None or each.drift_low_ppm <= true
        assert each.drift_high_ppm is None or true <= each.drift_high_ppm


def test_drift_is_told_as_exactly_as_messages_allow() -> None:
    """A drift that is only known to lie between -1,000 and 1,000 ppm is not known."""
    clocks = [steady(0), steady(5, 100), steady(-9), steady(0, -30)]
    found = estimate(clocks, chatter(Random(1), 4, 4_000))
    check_tracks(found.clocks, clocks)
    reference = number(str(found.clocks[0].reference))
    drifts = [0, 100, 0, -30]
    for each in found.clocks:
        if each.verdict != module.REFERENCE:
            assert each.drift_ppm == pytest.approx(drifts[number(each.name)] - drifts[reference], abs=0.1)
            assert each.drift_high_ppm is not None
            assert each.drift_low_ppm is not None
            assert each.drift_high_ppm - each.drift_low_ppm < 0.2
    assert [each.verdict for each in found.clocks].count(module.DRIFTS) >= 2


@given(st.integers(0, 1 << 32))
def test_a_clock_that_was_set_is_named_with_when_and_by_how_much(seed: int) -> None:
    """Of ten processes the one whose clock was set would stay unknown, and the nine others be suspected with it."""
    random = Random(seed)
    count = random.choice((4, 7, 10))
    drift = random.choice((0, 60))
    clocks = [steady(random.randint(-9, 9) * MILLION, random.randint(-drift, drift)) for _ in range(count)]
    wrong, at = random.randrange(count), START + random.randint(30_000, 70_000) * MILLION
    by = random.choice((-1, 1)) * random.randint(600, 4_000) * MILLION
    sent = chatter(random, count, 3_000)
    found = estimate([stepping(c, at, by) if n == wrong else c for n, c in enumerate(clocks)], sent)
    (broken,) = (each for each in found.broken if each.verdict != module.FAR_OFF)
    assert broken.name == f"c{wrong:03d}"
    assert broken.alternatives == ()
    assert found.eps_low >= abs(by) // 2 - 20 * MILLION
    assert broken.verdict == module.STEPS
    if drift:
        return
    reference = clocks[number(str(broken.reference))]
    own = clocks[wrong](at) - reference(at)
    before, after = broken.track[0], broken.track[-1]
    assert before.low is not None
    assert before.high is not None
    assert after.low is not None
    assert after.high is not None
    assert before.low <= own <= before.high
    assert after.low <= own + by <= after.high
    (step,) = broken.steps
    assert step.low is not None
    assert step.high is not None
    assert step.low <= by <= step.high
    assert step.first - 5 * MILLION <= reference(at) <= step.last + 5 * MILLION
    assert step.last - step.first < 8_000 * MILLION


def test_a_clock_far_from_all_others_is_named() -> None:
    """The machine without a time server, an hour off, is the answer that somebody looked for all night."""
    random = Random(3)
    clocks = [steady(random.randint(-9, 9) * MILLION) for _ in range(6)]
    sent = chatter(random, 6, 2_000)
    assert estimate(clocks, sent).broken == ()
    clocks[4] = steady(-3_600 * MILLION)
    (broken,) = estimate(clocks, sent).broken
    assert (broken.name, broken.verdict) == ("c004", module.FAR_OFF)
    assert broken.high is not None
    assert broken.high < -3_500 * MILLION


@pytest.mark.parametrize("shown", [0, 2**63 - 1, -(2**62)])
def test_a_clock_that_shows_nonsense_is_named_and_harms_no_other(shown: int) -> None:
    """A field that was never filled in would make sums overflow, and with them the bounds of clocks that are right."""
    truth = [0, 5 * MILLION, -3 * MILLION, MILLION]
    sent = chatter(Random(1), 5, 2_000)
    found = estimate([*map(steady, truth), lambda true: shown], sent)
    assert [each.name for each in found.broken] == ["c004"]
    reference = truth[number(str(found.clocks[0].reference))]
    for each, offset in zip(found.clocks, truth, strict=False):
        assert (each.low, each.high) == (offset - reference, offset - reference)


def test_of_two_clocks_that_contradict_each_other_none_is_singled_out() -> None:
    """The wrong machine of two would be repaired: messages between two clocks do not tell which of them was set."""
    clocks = [steady(0), stepping(steady(0), START + 50_000 * MILLION, 10**10)]
    found = estimate(clocks, chatter(Random(4), 2, 1_000))
    (broken,) = found.broken
    assert {broken.name, *broken.alternatives} == {"c000", "c001"}


@given(st.integers(0, 1 << 32))
def test_clocks_that_show_whole_seconds_do_not_contradict_each_other(seed: int) -> None:
    """Logs with times in seconds would be full of broken clocks, or of offsets that exclude the true ones."""
    random = Random(seed)
    truth = [random.randint(-3 * MILLION, 3 * MILLION) for _ in range(4)]
    sent = []
    for _ in range(300):
        left = START + random.randrange(10**9)
        sent.append((*random.sample(range(4), 2), left, left + random.randrange(MILLION // 4)))
    found = estimate([steady(offset) for offset in truth], sent, resolution=MILLION)
    assert found.broken == ()
    for clock in found.clocks:
        assert clock.low is not None
        assert clock.high is not None
        assert clock.low <= truth[number(clock.name)] - truth[number(str(clock.reference))] <= clock.high
    assert found.eps_high is not None
    assert found.eps_low <= max(truth) - min(truth) <= found.eps_high


def test_clocks_that_all_wander_are_not_called_broken() -> None:
    """Clocks whose rates change with the temperature would all be named, and the list would be of no use."""

    def wandering(phase: int) -> Clock:
        def read(true: int) -> int:
            at = (true - START) // MILLION + phase
            return true + abs(at % 60_000 - 30_000) * 100

        return read

    found = estimate([wandering(17_000 * each) for each in range(8)], chatter(Random(5), 8, 20_000, seconds=200_000))
    verdicts = [each.verdict for each in found.clocks]
    assert verdicts.count(module.WANDERS) >= 6
    assert found.broken == ()
    assert found.eps_high is not None
    assert found.eps_high >= found.eps_low > 10**6


def test_hundreds_of_clocks_are_bounded_against_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large system would get no answer, or another one than a small system with the same messages."""
    random = Random(6)
    clocks = [steady(random.randint(-9, 9) * MILLION) for _ in range(12)]
    sent = chatter(random, 12, 900)
    few = estimate(clocks, sent)
    monkeypatch.setattr(module, "DENSE", 3)
    many = estimate(clocks, sent)
    assert many.clocks == few.clocks
    assert many.eps_high is not None
    assert few.eps_high is not None
    assert many.eps_low <= few.eps_low <= few.eps_high <= many.eps_high
    clocks[7] = stepping(clocks[7], START + 40_000 * MILLION, 10**10)
    assert [each.name for each in estimate(clocks, sent).broken] == ["c007"]


def test_clocks_that_never_talk_are_told_apart() -> None:
    """Offsets of two groups side by side would read as if one could be compared with the other."""
    sent = [
        *chatter(Random(7), 3, 100),
        *((a + 3, b + 3, left, came) for a, b, left, came in chatter(Random(8), 2, 50)),
    ]
    found = estimate([steady(0)] * 5, sent)
    references: list[ClockEstimate] = [each for each in found.clocks if each.verdict == module.REFERENCE]
    assert found.groups == len(references) == 2
    assert {each.reference for each in found.clocks[:3]}.isdisjoint(each.reference for each in found.clocks[3:])
    assert estimate([steady(0)], []).clocks == ()


TWO_WAY = {
    "all": lambda n: list(permutations(range(n), 2)),
    "star": lambda n: [pair for other in range(1, n) for pair in ((0, other), (other, 0))],
    "chain": lambda n: [pair for at in range(n - 1) for pair in ((at, at + 1), (at + 1, at))],
}
ONE_WAY = {
    "pipeline": lambda n: [(at, at + 1) for at in range(n - 1)],
    "fan-out": lambda n: [(0, other) for other in range(1, n)],
    "fan-in": lambda n: [(other, n - 1) for other in range(n - 1)],
    "all onwards": lambda n: [(a, b) for a, b in permutations(range(n), 2) if a < b],
    "one pair answers": lambda n: [(1, 0), *((a, b) for a, b in permutations(range(n), 2) if a < b)],
}
WRONG: dict[str, Clock] = {
    "hours ahead": steady(5 * 3_600 * MILLION),
    "hours behind": steady(-5 * 3_600 * MILLION),
    "backwards": lambda true: 2 * START + 50_000 * MILLION - true,
    "negated": lambda true: -true,
    "twice as fast": lambda true: START + 2 * (true - START),
}


def test_what_is_said_of_a_group_of_clocks_does_not_depend_on_the_others() -> None:
    """With many groups in one log, one would be told the offsets of another, or lose messages to it."""
    random = Random(7)
    apart: list[ClockEstimate] = []
    clocks: list[Clock] = []
    sent: list[Sent] = []
    for _ in range(40):
        mine = [steady(random.randrange(-9, 9) * MILLION) for _ in range(random.choice((1, 2, 2, 3, 5)))]
        first = len(clocks)
        clocks += mine
        messages = chatter(random, len(mine), 12) if len(mine) > 1 else []
        numbered = [(first + a, first + b, left, came) for a, b, left, came in messages]
        apart += [each for each in estimate(clocks, numbered).clocks if number(each.name) >= first]
        sent += numbered
    random.shuffle(sent)
    told = ("name", "verdict", "reference", "low", "high", "sent", "received", "peers")
    together = [[getattr(each, field) for field in told] for each in estimate(clocks, sent).clocks]
    assert together == [[getattr(each, field) for field in told] for each in apart]


def with_one_wrong(ways: list[tuple[int, int]], count: int, wrong: int, how: Clock, random: Random) -> Offsets:
    """Clocks that differ by milliseconds but for one; messages take up to three seconds, and some next to nothing."""
    clocks = [steady(random.randint(-9, 9) * 1_000) for _ in range(count)]
    clocks[wrong] = how
    sent = []
    for _ in range(60 * count):
        left = START + random.randrange(100_000) * MILLION
        sent.append((*random.choice(ways), left, left + random.choice((0, 1, random.randint(0, 30))) * 100_000))
    return estimate(clocks, sent)


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("topology", [*TWO_WAY])
def test_one_wrong_clock_is_the_one_that_is_named(topology: str, how: str) -> None:
    """If the wrong clock were the reference, every right one would be called broken, and repaired."""
    random = Random(f"{topology} {how}")
    for count in (3, 4, 6, 9):
        for wrong in {0, 1, count - 1, random.randrange(count)}:
            found = with_one_wrong(TWO_WAY[topology](count), count, wrong, WRONG[how], random)
            assert [each.name for each in found.broken] == [f"c{wrong:03d}"]
            assert f"c{wrong:03d}" not in {each.reference for each in found.clocks}
            assert found.broken[0].alternatives == ()


@pytest.mark.parametrize("how", WRONG)
def test_one_wrong_clock_of_a_large_group_is_named(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large groups are compared in another way, which must not accuse another clock."""
    monkeypatch.setattr(module, "DENSE", 2)
    random = Random(how)
    for topology in ("all", "star"):
        for wrong in (0, 3, 7):
            found = with_one_wrong(TWO_WAY[topology](8), 8, wrong, WRONG[how], random)
            assert [each.name for each in found.broken] == [f"c{wrong:03d}"]
            assert f"c{wrong:03d}" not in {each.reference for each in found.clocks}


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("topology", [*ONE_WAY])
def test_messages_one_way_bound_one_side_and_accuse_nobody_else(topology: str, how: str) -> None:
    """They leave open which clock is wrong, unless it is hours off the right way: then it is that one, and never another."""
    random = Random(f"{topology} {how}")
    for count in (3, 4, 6, 9):
        for wrong in {0, 1, count - 1, random.randrange(count)}:
            ways = ONE_WAY[topology](count)
            found = with_one_wrong(ways, count, wrong, WRONG[how], random)
            assert {each.name for each in found.broken} <= {f"c{wrong:03d}"}
            assert f"c{wrong:03d}" not in {each.reference for each in found.clocks}
            for each in found.clocks:
                own = number(each.name)
                pairs = {(a, b) for a, b in ways if own in (a, b)}
                if each.verdict == module.UNKNOWN:
                    # Nothing but messages with the wrong clock, or with one of which the wrong clock is all that is known.
                    assert all(wrong in pair or len(pairs) == 1 for pair in pairs)
                elif each.verdict == module.ONE_SIDED:
                    assert (each.low is None) != (each.high is None)
                    assert each.offset is None


def test_a_clock_that_is_proven_hours_off_one_way_is_named() -> None:
    """Its messages arrive hours before they are sent, everywhere: one wrong clock explains that, and no other one does."""
    for wrong, how in ((0, "hours ahead"), (4, "hours behind")):
        found = with_one_wrong(ONE_WAY["all onwards"](5), 5, wrong, WRONG[how], Random(2))
        assert [(each.name, each.verdict) for each in found.broken] == [(f"c{wrong:03d}", module.FAR_OFF)]


def test_of_clocks_that_a_third_one_writes_to_each_has_its_bound() -> None:
    """Two receivers of one sender have nothing to do with each other; called unknown, nobody would know what to ask for."""
    truth = [0, 40, -7, 12]
    sent = [(0, other, START + at, START + at + 5) for at in range(9) for other in (1, 2, 3)]
    found = estimate([steady(offset) for offset in truth], sent)
    assert sorted(each.verdict for each in found.clocks) == [module.ONE_SIDED] * 3 + [module.REFERENCE]
    for each in found.clocks:
        if each.verdict == module.ONE_SIDED:
            own, reference = number(each.name), number(str(each.reference))
            assert 0 in (own, reference)
            bound = truth[own] - truth[reference] + (5 if reference == 0 else -5)
            assert (each.low, each.high) == ((None, bound) if reference == 0 else (bound, None))
