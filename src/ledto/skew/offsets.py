"""Estimate how wrong each clock is, and how sure that is, from the least differences that messages show.

A message never takes less than no time. So the least difference from a to b bounds how far b is ahead of a, the least
one from b to a how far it is behind, and bounds of several pairs combine. For clocks with constant offsets, or constant
rates if offsets do not explain all messages, the truth lies within the bounds: no delay is assumed to be the same both
ways, or the same twice. An offset that no message bounds is said to be unknown.

Offsets are relative to a *reference*: of the clocks that are bounded against each other, the one in the middle. No log
tells which of them shows the true time.

A clock that shows multiples of a resolution may be up to that much later than it shows; bounds allow for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ledto.skew.bounds import DENSE, UNBOUNDED
from ledto.skew.explain import OffsetsExplained, Peel, explain
from ledto.skew.fits import MOST_DRIFT, RATE_UNIT, Messages, MessagesByClock
from ledto.skew.pairs import ClockPairs
from ledto.skew.reference import FAR, FEWEST, RoughPlaces
from ledto.skew.sparse import explain_sparsely
from ledto.skew.steps import ClockStep, Moment, find_course

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

REFERENCE, AGREES, AHEAD, BEHIND = "reference", "agrees", "ahead", "behind"
FAR_OFF, DRIFTS, WANDERS = "far off", "drifts", "wanders"
STEPS, ERRATIC, ONE_SIDED, UNKNOWN = "steps", "erratic", "one side only", "unknown"
VERDICTS = (REFERENCE, AGREES, AHEAD, BEHIND, FAR_OFF, DRIFTS, WANDERS, STEPS, ERRATIC, ONE_SIDED, UNKNOWN)
"""What can be said of a clock, relative to the reference: it may agree; it is surely ahead or behind; so far that the
others agree much better among themselves; it gains or loses; it does so at changing rates; it was set; nothing explains
what it shows; messages bound it on one side; it has no messages, or only with clocks that are likely wrong."""
BROKEN = (FAR_OFF, STEPS, ERRATIC)
"""Verdicts of clocks that are wrong while the others agree."""
STEADY = (REFERENCE, AGREES, AHEAD, BEHIND, FAR_OFF)
"""Verdicts for which one offset, or one offset and a drift, says all."""

MOST_STEPS = 8
"""A clock that was set more often is called erratic."""


@dataclass(frozen=True, slots=True)
class ClockEstimate:
    """The estimate of one clock. Offsets are how far it is ahead of the reference, in the unit of times."""

    name: str
    verdict: str
    """One of `VERDICTS`."""
    reference: str | None
    """None for a clock that has no messages with others. If messages lead neither to the group's reference nor from it:
    another clock that it has messages with, which bound it on one side."""
    offset: int | None
    """The middle of the bounds, if there are two."""
    low: int | None
    """The offset is at least this: at the middle of the history, or always if it was set or wanders. None: unknown."""
    high: int | None
    drift_ppm: float | None
    """Its gain on the reference, in parts per million; None if constant offsets explain all messages, or nothing does."""
    drift_low_ppm: float | None
    drift_high_ppm: float | None
    sent: int
    """Messages to other clocks."""
    received: int
    peers: int
    resolution: int
    """All its times are multiples of this, if that matters; 0 if it does not."""
    alternatives: tuple[str, ...]
    """Clocks that may be wrong instead: the messages cannot tell."""
    steps: tuple[ClockStep, ...]
    """When it was set."""
    track: tuple[Moment, ...]
    """The bounds from the first message to the last."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """The estimates of all clocks."""

    clocks: tuple[ClockEstimate, ...]
    """Sorted by name."""
    eps_low: int
    """Some two clocks differed by at least this."""
    eps_high: int | None
    """No two clocks differed by more; None if that is unknown for some two that exchange messages, if indirectly."""
    unbounded: int
    """How many clocks it is unknown for."""
    groups: int
    """Sets of clocks that exchange messages, if indirectly; between two sets nothing is known."""

    @property
    def broken(self) -> tuple[ClockEstimate, ...]:
        """The clocks that are wrong while the others agree."""
        return tuple(clock for clock in self.clocks if clock.verdict in BROKEN)


def estimate_offsets(pairs: ClockPairs, *, resolution: Mapping[str, int] | None = None) -> Offsets:
    """Estimate each clock that occurs in the cells."""
    between = pairs.take(pairs.sender != pairs.receiver)
    steps = np.array([(resolution or {}).get(name, 0) for name in pairs.names], np.int64)
    # The smaller part is for the time of an offset, which is only known to the resolution.
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
    either_way = np.unique(np.concatenate((keys, keys % count * count + keys // count)))
    peers = np.bincount(either_way // count, minlength=len(pairs.names))
    counts = np.stack((sent, received, peers, steps))
    groups: list[_ConnectedClocks] = []
    for members, group_messages in _groups(messages, edges):
        names = [pairs.names[member] for member in members.tolist()]
        groups.append(
            _ConnectedClocks(names, counts[:, members], group_messages if len(members) > 1 else None, pairs.level)
        )
    clocks = sorted((clock for group in groups for clock in group.clocks), key=lambda clock: clock.name)
    unbounded = sum(group.unbounded for group in groups)
    return Offsets(
        tuple(clocks),
        max((group.eps_low for group in groups), default=0),
        None if unbounded else max((group.eps_high for group in groups), default=0),
        unbounded,
        sum(len(group.clocks) > 1 for group in groups),
    )


def _groups(messages: Messages, edges: Longs) -> Iterator[tuple[Longs, Messages]]:
    """Yield clocks that messages connect, the largest group first, and the messages of each, by numbers within the group."""
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
    # Groups are numbered by their first members, and a stable sort keeps that order among groups of one size.
    for chosen in np.argsort(-sizes, kind="stable").tolist():
        group_messages = messages.take(by_message[message_starts[chosen] : message_ends[chosen]])
        numbered = replace(
            group_messages,
            count=int(sizes[chosen]),
            sender=number[group_messages.sender],
            receiver=number[group_messages.receiver],
        )
        yield by_group[starts[chosen] : ends[chosen]], numbered


class _ConnectedClocks:
    """The estimates of clocks that messages connect."""

    def __init__(self, names: list[str], counts: Longs, messages: Messages | None, level: int) -> None:
        self.names, self.counts = names, counts
        self.eps_low = self.eps_high = self.unbounded = 0
        if messages is None:
            self.clocks = [self._clock(0, UNKNOWN, None, ())]
            return
        dense = len(names) <= DENSE
        explanation = explain(messages) if dense else explain_sparsely(messages)
        self.fits, self.reference = explanation.fits, explanation.fits[len(explanation.fits) // 2].reference
        self.clocks = self._estimates(messages, explanation, level)
        self._measure_eps(messages, {peel.clock for peel in explanation.gone})

    def _estimates(self, messages: Messages, explanation: OffsetsExplained, level: int) -> list[ClockEstimate]:
        """Make the estimates of all clocks of the group."""
        gone = {peel.clock: peel for peel in explanation.gone}
        tracks = [self._track(clock) for clock in range(len(self.names))]
        kept = messages.take(~np.isin(messages.sender, list(gone)) & ~np.isin(messages.receiver, list(gone)))
        places, ends = RoughPlaces(kept), MessagesByClock(kept)
        far = self._far_from_usual([track for clock, track in enumerate(tracks) if clock not in gone], places)
        clocks = []
        for clock, track in enumerate(tracks):
            if clock in gone:
                clocks.append(self._estimate_peeled(messages, gone[clock], level))
            else:
                drift = self._drift(clock)
                verdict = self._verdict(clock, track, drift, far)
                estimate = self._clock(clock, verdict, drift, track)
                if verdict == UNKNOWN:
                    estimate = self._against_peer(estimate, clock, ends.of(clock), places.trusted)
                clocks.append(estimate)
        return clocks

    def _against_peer(self, estimate: ClockEstimate, clock: int, messages: Messages, trusted: Flags) -> ClockEstimate:
        """Bound a clock that nothing bounds against the reference against the trusted one that it has most messages with.

        `messages` are those of this clock. Without such a peer the estimate stays as it is: against a clock that is
        likely wrong, it would seem to be wrong itself.
        """
        into = (messages.receiver == clock) & trusted[messages.sender]
        out = (messages.sender == clock) & trusted[messages.receiver]
        peers, count = np.unique(np.concatenate((messages.sender[into], messages.receiver[out])), return_counts=True)
        if not len(peers):
            return estimate
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
        return replace(estimate, verdict=verdict, reference=self.names[peer], offset=offset, low=low, high=high)

    def _track(self, clock: int) -> tuple[Moment, ...]:
        """Return the bounds against the reference, moment by moment."""
        track = []
        for fit in self.fits:
            for moment, aheads, behinds in zip(fit.moments, fit.ahead, fit.behind, strict=True):
                ahead, behind = int(aheads[clock]), int(behinds[clock])
                if len(self.fits) > 1 and min(ahead, behind) >= UNBOUNDED:
                    continue  # It had no messages in this stretch of time.
                track.append(
                    Moment(moment, -behind if behind < UNBOUNDED else None, ahead if ahead < UNBOUNDED else None)
                )
        return tuple(track)

    def _drift(self, clock: int) -> tuple[float | None, float | None] | None:
        """Return bounds in ppm over all times; None if no fit has rates."""
        rated = [fit.rates for fit in self.fits if fit.rates is not None]
        if not rated or clock == self.reference:
            return None
        highs, lows = [int(faster[clock]) for faster, _ in rated], [int(slower[clock]) for _, slower in rated]
        return _ppm(-max(lows)), _ppm(max(highs))

    def _far_from_usual(self, tracks: list[tuple[Moment, ...]], places: RoughPlaces) -> float:
        """Return the distance from the reference beyond which a clock is far off.

        That is `FAR` times what clocks usually have, or cannot be shown not to have, and more than delays vary by. If
        fewer than three are bounded on both sides: how far they seem to be if the quickest messages took no time;
        unless delays vary as much as the history is long, since then nobody can tell a slow message from a wrong clock.
        """
        sides = [(_lowest(track), _highest(track)) for track in tracks]
        bounds = np.array([(low, high) for low, high in sides if low is not None and high is not None], np.float64)
        if len(bounds) >= FEWEST:
            middles = np.abs(bounds.mean(axis=1))
            usual = max(np.median(middles), np.median(bounds[:, 1] - bounds[:, 0]) / 2)
            return float(max(FAR * usual, places.spread))
        return FAR * places.usual if places.talks.sum() >= FEWEST and not places.strangeness.any() else np.inf

    def _verdict(
        self, clock: int, track: tuple[Moment, ...], drift: tuple[float | None, float | None] | None, far: float
    ) -> str:
        """Judge a clock that was not left out of the fits."""
        if clock == self.reference:
            return REFERENCE
        low, high = max(_lows(track), default=None), min(_highs(track), default=None)
        if low is None and high is None:
            return UNKNOWN
        lowest, highest = _lowest(track), _highest(track)
        if (lowest is not None and lowest > far) or (highest is not None and -highest > far):
            return FAR_OFF
        if low is None or high is None:
            return ONE_SIDED
        if len(self.fits) > 1 and low > high:
            return WANDERS
        if drift is not None and len(self.fits) == 1 and ((drift[0] or 0) > 0 or (drift[1] or 0) < 0):
            return DRIFTS
        if lowest is not None and lowest > 0:
            return AHEAD
        return BEHIND if highest is not None and highest < 0 else AGREES

    def _estimate_peeled(self, messages: Messages, peel: Peel, level: int) -> ClockEstimate:
        """Estimate a clock that contradicts the others, as they see it."""
        track, steps = find_course(messages, peel.clock, self.fits[0], level=level)
        verdict = WANDERS if not steps and track else STEPS if 0 < len(steps) <= MOST_STEPS else ERRATIC
        return self._clock(peel.clock, verdict, None, track, peel, steps)

    def _clock(
        self,
        clock: int,
        verdict: str,
        drift: tuple[float | None, float | None] | None,
        track: tuple[Moment, ...],
        peel: Peel | None = None,
        steps: tuple[ClockStep, ...] = (),
    ) -> ClockEstimate:
        ever = verdict in (WANDERS, STEPS, ERRATIC)
        shown = track if ever else track[len(track) // 2 : len(track) // 2 + 1]
        low, high = _lowest(shown), _highest(shown)
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
            () if peel is None else tuple(self.names[other] for other in peel.alternatives),
            steps,
            track,
        )

    def _measure_eps(self, messages: Messages, gone: set[int]) -> None:
        """Measure eps over all pairs at all moments.

        Clocks that were left out of the fits count by their messages, and by the offsets they can have had.
        """
        self.eps_low = max(-int(messages.bound.min(initial=0)), *(fit.eps_low for fit in self.fits))
        self.eps_high = max(fit.eps_high for fit in self.fits)
        kept = [moment for number, clock in enumerate(self.clocks) if number not in gone for moment in clock.track]
        most_behind, most_ahead = -min(_lows(kept), default=0), max(_highs(kept), default=0)
        for clock in (self.clocks[number] for number in gone):
            lows, highs = _lows(clock.track), _highs(clock.track)
            self.eps_low = max(self.eps_low, max(lows, default=0), -min(highs, default=0))
            behind, ahead = -min(lows, default=0), max(highs, default=0)
            self.eps_high = max(self.eps_high, behind + most_ahead, ahead + most_behind)
        for clock in self.clocks:
            sides = [side for moment in clock.track for side in (moment.low, moment.high)]
            self.unbounded += None in sides or not sides


def _ppm(logarithm: int) -> float | None:
    """Return what a clock gains in a million, from the logarithm of its rate.

    None if only the assumption bounds it that no clock is worse: then it is unknown.
    """
    return None if abs(logarithm) * RATE_UNIT >= 0.99 * MOST_DRIFT else float(np.expm1(logarithm * RATE_UNIT) * 1e6)


def _lows(track: Sequence[Moment]) -> list[int]:
    """Return the lower bounds that are known."""
    return [moment.low for moment in track if moment.low is not None]


def _highs(track: Sequence[Moment]) -> list[int]:
    """Return the upper bounds that are known."""
    return [moment.high for moment in track if moment.high is not None]


def _lowest(track: Sequence[Moment]) -> int | None:
    """Return the lower bound that holds at all moments; None if one of them has none."""
    lows = _lows(track)
    return min(lows) if lows and len(lows) == len(track) else None


def _highest(track: Sequence[Moment]) -> int | None:
    """Return the upper bound that holds at all moments; None if one of them has none."""
    highs = _highs(track)
    return max(highs) if highs and len(highs) == len(track) else None
