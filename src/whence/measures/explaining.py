"""The simplest explanation of what a group's clocks showed, and the clocks that do not fit into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.measures.choosing import RoughPlaces
from whence.measures.offset_fits import Fit, Messages, Refused, constant_offsets
from whence.measures.rate_fits import constant_rates

Longs = NDArray[np.int64]
Model = Callable[[Messages, int | None], Fit | Refused]


@dataclass(frozen=True, slots=True)
class Peel:
    """A clock without which there is one contradiction less, and the others of which that was as likely."""

    clock: int
    alternatives: tuple[int, ...]


def peeled(
    messages: Messages, model: Model, *, most: int, reference: int | None = None
) -> tuple[Fit, list[Peel]] | None:
    """A fit without some clocks, and these; None if more than `most` would have to go."""
    gone: list[Peel] = []
    while True:
        found = model(messages, reference)
        if isinstance(found, Fit):
            return found, gone
        if len(gone) == most:
            return None
        talk = np.zeros_like(found.between)
        talk[messages.sender, messages.receiver] = True
        agrees = (talk & talk.T & ~found.between).sum(axis=1)
        gone.append(likeliest(found.between.sum(axis=1), agrees, RoughPlaces(messages).strangeness))
        messages = messages.without(gone[-1].clock)


def likeliest(contradicts: Longs, agrees: Longs, strange: Longs) -> Peel:
    """The clock that contradicts most others and, of several, agrees with fewest and is strange to most; counts by clock.

    Messages between two clocks that contradict each other do not tell which of them is wrong; those with others may.
    """
    rank = np.stack((contradicts, -agrees, strange))
    first = int(np.lexsort((np.arange(len(contradicts)), *-rank[::-1]))[0])
    same = np.flatnonzero((rank == rank[:, first : first + 1]).all(axis=0)).tolist()
    return Peel(first, tuple(same[1:]))


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """How a group's messages are explained."""

    fits: tuple[Fit, ...]
    """Against one reference: one for all times, or one for each of several stretches of time, from one of which to the
    next clocks may do what they like."""
    gone: tuple[Peel, ...]
    """Clocks that fit to nothing; they have no bounds in `fits`."""


def explained(messages: Messages, *, stretches: Sequence[int] = (4, 16)) -> Explanation:
    """The simplest model that explains the messages.

    Constant offsets, then constant rates; then either with few clocks left out; then rates that change from one
    stretch of time to the next.
    """
    for model in (constant_offsets, constant_rates):
        found = model(messages, None)
        if isinstance(found, Fit):
            return Explanation((found,), ())
    most = max(1, messages.count // 8)
    tries = [peeled(messages, model, most=most) for model in (constant_offsets, constant_rates)]
    few = [each for each in tries if each is not None]
    if few:
        fit, gone = min(few, key=lambda each: len(each[1]))
        return Explanation((fit,), tuple(gone))
    for parts in stretches:
        fits, whole = _in_stretches(messages, parts)
        if whole:
            break
    return Explanation(tuple(fits), ())


def _in_stretches(messages: Messages, parts: int) -> tuple[list[Fit], bool]:
    """A fit for each of so many stretches of time, and whether all clocks fit to it."""
    edges = np.quantile(messages.send, np.linspace(0, 1, parts + 1)[1:-1], method="lower")
    place = np.searchsorted(edges, messages.send, side="right")
    reference: int | None = None
    found: dict[int, tuple[Fit, list[Peel]]] = {}
    for part in sorted(range(parts), key=lambda each: abs(each - parts // 2)):
        best = peeled(messages.take(place == part), constant_rates, most=messages.count, reference=reference)
        assert best is not None  # Without any clock left there is nothing to contradict.
        reference, found[part] = best[0].reference, best
    return [found[part][0] for part in range(parts)], not any(gone for _, gone in found.values())
