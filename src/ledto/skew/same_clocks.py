"""Find clocks that cannot be told apart, and how far apart they can be at most.

Messages bound how far one clock is ahead of another. If the bounds of all pairs of some clocks allow 0, one clock could
have shown all their times: nothing tells them apart. That does not prove that they are one, so the bound is given as
well.

Traces record requests and no answers, which bounds clocks on one side. A client that ended without an error is assumed
to have waited for its server, whose span then began before the client's ended. Results that need this assumption say
so. The end of the server's span is no such bound: servers go on after they answered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.skew.bounds import DENSE, UNBOUNDED, tighten, to_matrix
from ledto.skew.pairs import ClockPairs

Longs = NDArray[np.int64]

_ABSENT = -1
"""In place of the number of a clock: it is not among the clocks in question."""


@dataclass(frozen=True, slots=True)
class SameClocks:
    """Clocks that cannot be told apart."""

    names: tuple[str, ...]
    """Two or more, ascending."""
    apart: int
    """No two of them differ by more, in the unit of times."""
    by_answers: bool
    """Whether that assumes that clients waited for their servers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """Clock `b` is ahead of clock `a` by `bound` at most."""

    a: Longs
    b: Longs
    bound: Longs

    def among(self, clocks: Longs, count: int) -> Longs:
        """Return the bounds between these clocks, of `count` in all, as a matrix."""
        place = np.full(count, _ABSENT, np.int64)
        place[clocks] = np.arange(len(clocks))
        a, b = place[self.a], place[self.b]
        inside = (a != _ABSENT) & (b != _ABSENT)
        return to_matrix(len(clocks), a[inside], b[inside], self.bound[inside])


def find_same_clocks(
    messages: ClockPairs, answers: ClockPairs, *, resolution: Mapping[str, int], left_out: Collection[str]
) -> tuple[SameClocks, ...]:
    """Find sets of clocks that cannot be told apart, the largest first; no clock is in two of them.

    `answers` are from the starts of servers to the ends of clients. `left_out` are clocks that constant offsets do not
    explain. Groups of more than `DENSE` clocks that messages connect are skipped.
    """
    names = sorted({*messages.names, *answers.names} - set(left_out))
    proven, assumed = (_bounds(pairs, names, resolution) for pairs in (messages, answers))
    groups: list[SameClocks] = []
    for clocks in _connected(len(names), proven):
        if 1 < len(clocks) <= DENSE:
            group = [names[clock] for clock in clocks]
            groups += _same(group, proven.among(clocks, len(names)), assumed.among(clocks, len(names)))
    return tuple(sorted(groups, key=lambda group: (-len(group.names), group.names)))


def _bounds(pairs: ClockPairs, names: list[str], resolution: Mapping[str, int]) -> _Bounds:
    """Return the bounds between different clocks of these names. A clock may be up to its resolution later than it shows."""
    number = {name: index for index, name in enumerate(names)}
    codes = np.array([number.get(name, _ABSENT) for name in pairs.names], np.int64)
    steps = np.array([resolution.get(name, 0) for name in pairs.names], np.int64)
    a, b = codes[pairs.sender], codes[pairs.receiver]
    chosen = (a != _ABSENT) & (b != _ABSENT) & (a != b)
    return _Bounds(a[chosen], b[chosen], (pairs.least + steps[pairs.receiver])[chosen])


def _connected(count: int, bounds: _Bounds) -> Iterator[Longs]:
    """Yield sets of clocks that messages connect."""
    label = np.arange(count)
    while True:
        least = np.minimum(label[bounds.a], label[bounds.b])
        before = label.copy()
        np.minimum.at(label, bounds.a, least)
        np.minimum.at(label, bounds.b, least)
        label = label[label]
        if np.array_equal(before, label):
            break
    for group in np.unique(label).tolist():
        yield np.flatnonzero(label == group)


def _same(names: list[str], recorded: Longs, assumed: Longs) -> Iterator[SameClocks]:
    """Yield those of some connected clocks."""
    proven = tighten(recorded)
    if proven is None:
        return
    with_answers = tighten(np.minimum(recorded, assumed))
    # If answers contradict messages, clients did not wait for them.
    bounds = proven if with_answers is None else with_answers
    alike = (np.minimum(bounds, bounds.T) >= 0) & (np.maximum(bounds, bounds.T) < UNBOUNDED)
    unassigned = np.ones(len(names), np.bool_)
    for first in np.argsort(-alike.sum(axis=1), kind="stable").tolist():
        if not unassigned[first]:
            continue
        group = [first]
        for other in np.flatnonzero(alike[first] & unassigned).tolist():
            if other != first and alike[other, group].all():
                group.append(other)
        if len(group) > 1:
            unassigned[group] = False
            chosen = np.ix_(group, group)
            apart = int(bounds[chosen].max())
            by_answers = apart < int(proven[chosen].max())
            yield SameClocks(tuple(sorted(names[clock] for clock in group)), apart, by_answers)
