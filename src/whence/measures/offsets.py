"""How wrong each clock is, and how sure that is, from the least differences that messages show.

A message takes no less than no time. So the least difference from a to b bounds how far b is ahead of a, the least one
from b to a how far it is behind, and bounds of several pairs combine. For clocks with constant offsets, or constant rates
where offsets do not explain all messages, the truth lies within the bounds: no delay is assumed to be the same both ways,
or the same twice. What no message bounds is unknown, and said to be.

Offsets are relative to a *reference*: of the clocks that are bounded against each other, the one in the middle. No log
tells which of them shows the true time.

A clock that shows multiples of a resolution may stand up to that much further than it shows; bounds allow for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from whence.measures.choosing import FAR, FEWEST, RoughPlaces
from whence.measures.clock_pairs import ClockPairs
from whence.measures.clock_steps import Moment, Step, course_of
from whence.measures.difference_bounds import DENSE, UNBOUNDED
from whence.measures.explaining import Explanation, Peel, explained
from whence.measures.offset_fits import RATE_UNIT, Ends, Messages
from whence.measures.rate_fits import MOST_DRIFT
from whence.measures.sparse_offsets import explained_sparsely

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

REFERENCE, AGREES, AHEAD, BEHIND = "reference", "agrees", "ahead", "behind"
FAR_OFF, DRIFTS, WANDERS = "far off", "drifts", "wanders"
STEPS, ERRATIC, ONE_SIDED, UNKNOWN = "steps", "erratic", "one side only", "unknown"
VERDICTS = (REFERENCE, AGREES, AHEAD, BEHIND, FAR_OFF, DRIFTS, WANDERS, STEPS, ERRATIC, ONE_SIDED, UNKNOWN)
"""What can be said of a clock, relative to the reference: it may agree; it is ahead or behind, surely; so far that the
others agree much better among themselves; it gains or loses; it does so at changing rates; it was set; nothing explains
what it shows; messages bound it on one side; it has no messages, or only with clocks that are likely wrong."""
BROKEN = (FAR_OFF, STEPS, ERRATIC)
STEADY = (REFERENCE, AGREES, AHEAD, BEHIND, FAR_OFF)
"""Where one offset, or one offset and a drift, says it all."""

MOST_STEPS = 8
"""A clock that was set more often is called erratic."""


@dataclass(frozen=True, slots=True)
class ClockEstimate:
    """What is known of a clock. Offsets are how far it is ahead of the reference, in the unit of times."""

    name: str
    verdict: str
    """One of `VERDICTS`."""
    reference: str | None
    """None for a clock that has no messages with others. Where messages lead neither to the group's reference nor from it,
    another clock that it has messages with, which bound it on one side."""
    offset: int | None
    """The middle of the bounds, if there are two."""
    low: int | None
    """The offset is at least this, at the middle of the history, or ever if it was set or wanders; None: not known."""
    high: int | None
    drift_ppm: float | None
    """What it gains on the reference in a million; None where constant offsets explain all messages, or nothing does."""
    drift_low_ppm: float | None
    drift_high_ppm: float | None
    sent: int
    """Messages to other clocks."""
    received: int
    peers: int
    resolution: int
    """What all its times are multiples of, where that matters; 0 where it does not."""
    alternatives: tuple[str, ...]
    """Clocks that may be the one that is wrong instead: the messages cannot tell."""
    steps: tuple[Step, ...]
    """When it was set."""
    track: tuple[Moment, ...]
    """The bounds from the first message to the last."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """What is known of all clocks."""

    clocks: tuple[ClockEstimate, ...]
    """By name."""
    eps_low: int
    """Two clocks differed by this much at least."""
    eps_high: int | None
    """None differed by more; None if that is not known of some two clocks that exchange messages, if indirectly."""
    unbounded: int
    """Clocks for which it is not known."""
    groups: int
    """Sets of clocks that exchange messages, if indirectly; between two of them nothing is known."""

    @property
    def broken(self) -> tuple[ClockEstimate, ...]:
        """Clocks that are wrong where the others agree."""
        return tuple(each for each in self.clocks if each.verdict in BROKEN)


def estimate_offsets(pairs: ClockPairs, *, resolution: Mapping[str, int] | None = None) -> Offsets:
    """What the cells show of each clock that occurs in them."""
    between = pairs.take(pairs.sender != pairs.receiver)
    steps = np.array([(resolution or {}).get(name, 0) for name in pairs.names], np.int64)
    # The smaller part is for the time at which an offset is asked for, which is known to the resolution only.
    coarse = steps[between.receiver] + (steps[between.sender] >> 9)
    messages = Messages(
        len(pairs.names),
        between.sender.astype(np.int64),
        between.receiver.astype(np.int64),
        between.least_send,
        between.least_receive,
        between.least + coarse,
    )
    sent, received = np.zeros(len(pairs.names), np.int64), np.zeros(len(pairs.names), np.int64)
    np.add.at(sent, between.sender, between.messages)
    np.add.at(received, between.receiver, between.messages)
    count = max(1, len(pairs.names))
    keys = np.unique(messages.sender * count + messages.receiver)
    edges = np.stack((keys // count, keys % count), axis=1)
    both = np.unique(np.concatenate((keys, keys % count * count + keys // count)))
    peers = np.bincount(both // count, minlength=len(pairs.names))
    counts = np.stack((sent, received, peers, steps))
    found: list[_Group] = []
    for members, mine in _groups(messages, edges):
        names = [pairs.names[member] for member in members.tolist()]
        found.append(_Group(names, counts[:, members], mine if len(members) > 1 else None, pairs.level))
    clocks = sorted((each for group in found for each in group.clocks), key=lambda each: each.name)
    unbounded = sum(group.unbounded for group in found)
    return Offsets(
        tuple(clocks),
        max((group.eps_low for group in found), default=0),
        None if unbounded else max((group.eps_high for group in found), default=0),
        unbounded,
        sum(len(group.clocks) > 1 for group in found),
    )


def _groups(messages: Messages, edges: Longs) -> Iterator[tuple[Longs, Messages]]:
    """Clocks that messages connect, the largest group first, and the messages of each, by numbers within the group."""
    label = np.arange(messages.count)
    while len(edges):
        least = np.minimum(label[edges[:, 0]], label[edges[:, 1]])
        before = label.copy()
        np.minimum.at(label, edges[:, 0], least)
        np.minimum.at(label, edges[:, 1], least)
        label = label[label]
        if np.array_equal(before, label):
            break
    group, sizes = np.unique(label, return_inverse=True, return_counts=True)[1:]
    by_group, by_message = np.argsort(group, kind="stable"), np.argsort(group[messages.sender], kind="stable")
    ends, message_ends = np.cumsum(sizes), np.cumsum(np.bincount(group[messages.sender], minlength=len(sizes)))
    starts, message_starts = ends - sizes, np.concatenate(([0], message_ends[:-1]))
    number = np.empty(messages.count, np.int64)
    number[by_group] = np.arange(messages.count) - np.repeat(starts, sizes)
    # Groups are numbered by their first members, so that a stable sort leaves those of one size in that order.
    for each in np.argsort(-sizes, kind="stable").tolist():
        mine = messages.take(by_message[message_starts[each] : message_ends[each]])
        numbered = replace(
            mine, count=int(sizes[each]), sender=number[mine.sender], receiver=number[mine.receiver]
        )  # fmt: skip
        yield by_group[starts[each] : ends[each]], numbered


class _Group:
    """The estimates of clocks that messages connect."""

    def __init__(self, names: list[str], counts: Longs, messages: Messages | None, level: int) -> None:
        self.names, self.counts = names, counts
        self.eps_low = self.eps_high = self.unbounded = 0
        if messages is None:
            self.clocks = [self._clock(0, UNKNOWN, None, ())]
            return
        dense = len(names) <= DENSE
        found = explained(messages) if dense else explained_sparsely(messages)
        self.fits, self.reference = found.fits, found.fits[len(found.fits) // 2].reference
        self.clocks = self._explained(messages, found, level)
        self._measure_eps(messages, {peel.clock for peel in found.gone})

    def _explained(self, messages: Messages, found: Explanation, level: int) -> list[ClockEstimate]:
        gone = {peel.clock: peel for peel in found.gone}
        tracks = [self._track(clock) for clock in range(len(self.names))]
        kept = messages.take(~np.isin(messages.sender, list(gone)) & ~np.isin(messages.receiver, list(gone)))
        places, ends = RoughPlaces(kept), Ends(kept)
        far = self._far_from_usual([track for clock, track in enumerate(tracks) if clock not in gone], places)
        clocks = []
        for clock, track in enumerate(tracks):
            if clock in gone:
                clocks.append(self._peeled(messages, gone[clock], level))
            else:
                drift = self._drift(clock)
                verdict = self._verdict(clock, track, drift, far)
                found_one = self._clock(clock, verdict, drift, track)
                if verdict == UNKNOWN:
                    found_one = self._against_peer(found_one, clock, ends.of(clock), places.trusted)
                clocks.append(found_one)
        return clocks

    def _against_peer(self, found: ClockEstimate, clock: int, messages: Messages, trusted: Flags) -> ClockEstimate:
        """A clock that nothing bounds against the reference, against the trusted one that it has most messages with.

        `messages` are those of this clock.
        It stays as it is if there is none: against a clock that is likely wrong, it would seem to be wrong itself.
        """
        into = (messages.receiver == clock) & trusted[messages.sender]
        out = (messages.sender == clock) & trusted[messages.receiver]
        peers, count = np.unique(np.concatenate((messages.sender[into], messages.receiver[out])), return_counts=True)
        if not len(peers):
            return found
        peer = int(peers[count.argmax()])
        aheads, behinds = (
            messages.bound[into & (messages.sender == peer)],
            messages.bound[out & (messages.receiver == peer)],
        )
        high = int(aheads.min()) if len(aheads) else None
        low = -int(behinds.min()) if len(behinds) else None
        verdict, offset = ONE_SIDED, None
        if low is not None and high is not None:
            verdict, offset = AHEAD if low > 0 else BEHIND if high < 0 else AGREES, (low + high) // 2
        return replace(found, verdict=verdict, reference=self.names[peer], offset=offset, low=low, high=high)

    def _track(self, clock: int) -> tuple[Moment, ...]:
        """Bounds against the reference."""
        found = []
        for fit in self.fits:
            for moment, aheads, behinds in zip(fit.moments, fit.ahead, fit.behind, strict=True):
                ahead, behind = int(aheads[clock]), int(behinds[clock])
                if len(self.fits) > 1 and min(ahead, behind) >= UNBOUNDED:
                    continue  # It had no messages in this stretch of time.
                found.append(
                    Moment(moment, -behind if behind < UNBOUNDED else None, ahead if ahead < UNBOUNDED else None)
                )
        return tuple(found)

    def _drift(self, clock: int) -> tuple[float | None, float | None] | None:
        """Bounds in ppm over all times; None where no fit has rates."""
        rated = [fit.rates for fit in self.fits if fit.rates is not None]
        if not rated or clock == self.reference:
            return None
        highs, lows = ([int(rates[side][clock]) for rates in rated] for side in (0, 1))
        return _ppm(-max(lows)), _ppm(max(highs))

    def _far_from_usual(self, tracks: list[tuple[Moment, ...]], places: RoughPlaces) -> float:
        """Give the distance from the reference beyond which a clock is far off.

        That is `FAR` times what clocks usually have, or cannot be told not to have, and more than delays change by.
        Where fewer than three are bounded on both sides: how far they seem to be, if the quickest messages took no time;
        unless delays change as much as the history is long, which lets nobody tell a slow message from a wrong clock.
        """
        bounds = [(_most(track, -1), _most(track, 1)) for track in tracks]
        known = np.array([each for each in bounds if each[0] > -UNBOUNDED and each[1] < UNBOUNDED], np.float64)
        if len(known) >= FEWEST:
            middles = np.abs(known.mean(axis=1))
            usual = max(np.median(middles), np.median(known[:, 1] - known[:, 0]) / 2)
            return float(max(FAR * usual, places.spread))
        return FAR * places.usual if places.talks.sum() >= FEWEST and not places.strangeness.any() else np.inf

    def _verdict(
        self, clock: int, track: tuple[Moment, ...], drift: tuple[float | None, float | None] | None, far: float
    ) -> str:
        if clock == self.reference:
            return REFERENCE
        low, high = max(_values(track, -1), default=None), min(_values(track, 1), default=None)
        if low is None and high is None:
            return UNKNOWN
        least, largest = _most(track, -1), _most(track, 1)
        if max(least, -largest) > far:
            return FAR_OFF
        if low is None or high is None:
            return ONE_SIDED
        if len(self.fits) > 1 and low > high:
            return WANDERS
        if drift is not None and len(self.fits) == 1 and ((drift[0] or 0) > 0 or (drift[1] or 0) < 0):
            return DRIFTS
        return AHEAD if least > 0 else BEHIND if largest < 0 else AGREES

    def _peeled(self, messages: Messages, peel: Peel, level: int) -> ClockEstimate:
        """A clock that contradicts the others, as they see it."""
        track, steps = course_of(messages, peel.clock, self.fits[0], level=level)
        verdict = WANDERS if not steps and track else STEPS if 0 < len(steps) <= MOST_STEPS else ERRATIC
        return self._clock(peel.clock, verdict, None, track, peel, steps)

    def _clock(
        self,
        clock: int,
        verdict: str,
        drift: tuple[float | None, float | None] | None,
        track: tuple[Moment, ...],
        peel: Peel | None = None,
        steps: tuple[Step, ...] = (),
    ) -> ClockEstimate:
        ever = verdict in (WANDERS, STEPS, ERRATIC)
        shown = track if ever else track[len(track) // 2 : len(track) // 2 + 1]
        low: int | None = _most(shown, -1)
        high: int | None = _most(shown, 1)
        low, high = None if low == -UNBOUNDED else low, None if high == UNBOUNDED else high
        slow, fast = drift or (None, None)
        sent, received, peers, resolution = self.counts[:, clock].tolist()
        return ClockEstimate(
            self.names[clock],
            verdict,
            self.names[self.reference] if len(self.names) > 1 else None,
            None if low is None or high is None else (low + high) // 2,
            low,
            high,
            None if slow is None or fast is None else (slow + fast) / 2,
            slow,
            fast,
            sent,
            received,
            peers,
            resolution,
            () if peel is None else tuple(self.names[each] for each in peel.alternatives),
            steps,
            track,
        )

    def _measure_eps(self, messages: Messages, gone: set[int]) -> None:
        """Over all pairs at all moments; clocks left out of the fits count by their messages, and by what others can be."""
        self.eps_low = max(-int(messages.bound.min(initial=0)), *(fit.eps_low for fit in self.fits))
        self.eps_high = max(fit.eps_high for fit in self.fits)
        kept = [moment for at, clock in enumerate(self.clocks) if at not in gone for moment in clock.track]
        least, largest = (max(_values(kept, side, sign=side), default=0) for side in (-1, 1))
        for clock in (self.clocks[at] for at in gone):
            behind, ahead = (max(_values(clock.track, side, sign=side), default=0) for side in (-1, 1))
            self.eps_low = max(self.eps_low, -min(_values(clock.track, -1, sign=-1), default=0))
            self.eps_low = max(self.eps_low, -min(_values(clock.track, 1, sign=1), default=0))
            self.eps_high = max(self.eps_high, behind + largest, ahead + least)
        for clock in self.clocks:
            sides = [side for moment in clock.track for side in (moment.low, moment.high)]
            self.unbounded += None in sides or not sides


def _ppm(logarithm: int) -> float | None:
    """What a clock of this logarithm of a rate gains in a million.

    None where only the assumption bounds it that clocks are not worse: then it is not known.
    """
    return None if abs(logarithm) * RATE_UNIT >= 0.99 * MOST_DRIFT else float(np.expm1(logarithm * RATE_UNIT) * 1e6)


def _values(track: Sequence[Moment], side: int, *, sign: int = 1) -> list[int]:
    """The known bounds of one side, low for -1 and high for 1, times `sign`."""
    sides = (moment.low if side < 0 else moment.high for moment in track)
    return [sign * each for each in sides if each is not None]


def _most(track: tuple[Moment, ...], side: int) -> int:
    """The bound of one side that holds at all its moments; `UNBOUNDED` with its sign where one is not known."""
    known = _values(track, side)
    if len(known) < len(track) or not known:
        return side * UNBOUNDED
    return min(known) if side < 0 else max(known)
