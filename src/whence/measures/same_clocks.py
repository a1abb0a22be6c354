"""Which clocks cannot be told apart, and how far apart they can be at most.

Messages bound how far one clock is ahead of another. Where the bounds of all pairs of some clocks allow 0, one clock could
have shown all their times: nothing tells them apart. That is no proof that they are one, so it is said with the bound.

Traces record requests and no answers, which bounds clocks on one side. A client that ended without an error is taken to have
waited for its server, whose span then began before the client's ended. Bounds that rest on it are said to. The end of the
server's span is no such bound: servers go on after they answered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.measures.clock_pairs import ClockPairs
from whence.measures.difference_bounds import DENSE, UNBOUNDED, matrix_of, tightened

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SameClocks:
    """Clocks that cannot be told apart."""

    names: tuple[str, ...]
    """Two or more, ascending."""
    apart: int
    """No two of them differ by more, in the unit of times."""
    by_answers: bool
    """Whether that rests on clients having waited for their servers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """Clock `b` is ahead of clock `a` by `bound` at most."""

    a: Longs
    b: Longs
    bound: Longs

    def among(self, clocks: Longs, count: int) -> Longs:
        """The bounds between these clocks, of `count` in all, as a matrix."""
        place = np.full(count, -1, np.int64)
        place[clocks] = np.arange(len(clocks))
        a, b = place[self.a], place[self.b]
        inside = (a >= 0) & (b >= 0)
        return matrix_of(len(clocks), a[inside], b[inside], self.bound[inside])


def same_clocks(
    messages: ClockPairs, answers: ClockPairs, *, resolution: Mapping[str, int], left_out: Collection[str]
) -> tuple[SameClocks, ...]:
    """Sets of clocks that cannot be told apart, the largest first; no clock is in two of them.

    `answers` are from the starts of servers to the ends of clients. `left_out` are clocks that constant offsets do not
    explain. Of clocks that messages connect, more than `DENSE` are not looked at.
    """
    names = sorted({*messages.names, *answers.names} - set(left_out))
    known, assumed = (_bounds(each, names, resolution) for each in (messages, answers))
    found: list[SameClocks] = []
    for clocks in _connected(len(names), known):
        if 1 < len(clocks) <= DENSE:
            found += _same(
                [names[each] for each in clocks], known.among(clocks, len(names)), assumed.among(clocks, len(names))
            )
    return tuple(sorted(found, key=lambda each: (-len(each.names), each.names)))


def _bounds(pairs: ClockPairs, names: list[str], resolution: Mapping[str, int]) -> _Bounds:
    """Between different clocks of these names. A clock may stand up to its resolution further than it shows."""
    number = {name: at for at, name in enumerate(names)}
    codes = np.array([number.get(name, -1) for name in pairs.names], np.int64)
    steps = np.array([resolution.get(name, 0) for name in pairs.names], np.int64)
    a, b = codes[pairs.sender], codes[pairs.receiver]
    chosen = (a >= 0) & (b >= 0) & (a != b)
    return _Bounds(a[chosen], b[chosen], (pairs.least + steps[pairs.receiver])[chosen])


def _connected(count: int, bounds: _Bounds) -> Iterator[Longs]:
    """Sets of clocks that messages connect."""
    label = np.arange(count)
    while True:
        least = np.minimum(label[bounds.a], label[bounds.b])
        before = label.copy()
        np.minimum.at(label, bounds.a, least)
        np.minimum.at(label, bounds.b, least)
        label = label[label]
        if np.array_equal(before, label):
            break
    for each in np.unique(label).tolist():
        yield np.flatnonzero(label == each)


def _same(names: list[str], known: Longs, assumed: Longs) -> Iterator[SameClocks]:
    """Those of some connected clocks."""
    proven = tightened(known)
    if proven is None:
        return
    with_answers = tightened(np.minimum(known, assumed))
    # Answers that contradict messages were not waited for.
    bounds = proven if with_answers is None else with_answers
    alike = (np.minimum(bounds, bounds.T) >= 0) & (np.maximum(bounds, bounds.T) < UNBOUNDED)
    left = np.ones(len(names), np.bool_)
    for first in np.argsort(-alike.sum(axis=1), kind="stable").tolist():
        if not left[first]:
            continue
        group = [first]
        for other in np.flatnonzero(alike[first] & left).tolist():
            if other != first and alike[other, group].all():
                group.append(other)
        if len(group) > 1:
            left[group] = False
            chosen = np.ix_(group, group)
            apart = int(bounds[chosen].max())
            by_answers = apart < int(proven[chosen].max())
            yield SameClocks(tuple(sorted(names[each] for each in group)), apart, by_answers)
