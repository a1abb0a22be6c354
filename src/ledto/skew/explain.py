"""Find the simplest explanation of what a group's clocks showed, and the clocks that do not fit it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.skew.fits import Fit, Messages, NoFit, constant_offsets, constant_rates
from ledto.skew.reference import RoughPlaces

Longs = NDArray[np.int64]
Model = Callable[[Messages, int | None], Fit | NoFit]


@dataclass(frozen=True, slots=True)
class Peel:
    """A clock that was left out because it contradicts others, and the clocks that were as likely to be wrong."""

    clock: int
    alternatives: tuple[int, ...]


def peel(messages: Messages, model: Model, *, most: int, reference: int | None = None) -> tuple[Fit, list[Peel]] | None:
    """Leave clocks out until the model fits; return the fit and these clocks. None if more than `most` would have to go."""
    left_out: list[Peel] = []
    while True:
        outcome = model(messages, reference)
        if isinstance(outcome, Fit):
            return outcome, left_out
        if len(left_out) == most:
            return None
        has_messages = np.zeros_like(outcome.between)
        has_messages[messages.sender, messages.receiver] = True
        agrees = (has_messages & has_messages.T & ~outcome.between).sum(axis=1)
        left_out.append(choose_wrong(outcome.between.sum(axis=1), agrees, RoughPlaces(messages).strangeness))
        messages = messages.without(left_out[-1].clock)


def choose_wrong(contradicts: Longs, agrees: Longs, strange: Longs) -> Peel:
    """Choose the clock to leave out, by counts for each clock.

    It contradicts most others; of several such, it agrees with fewest and is strange to most. Messages between two
    clocks that contradict each other do not tell which of them is wrong; those with others may.
    """
    rank = np.stack((contradicts, -agrees, strange))
    first = int(np.lexsort((np.arange(len(contradicts)), *-rank[::-1]))[0])
    same = np.flatnonzero((rank == rank[:, first : first + 1]).all(axis=0)).tolist()
    return Peel(first, tuple(same[1:]))


@dataclass(frozen=True, slots=True, eq=False)
class OffsetsExplained:
    """The explanation of a group's messages."""

    fits: tuple[Fit, ...]
    """Against one reference: one fit for all times, or one for each of several stretches of time, between which clocks
    may change in any way."""
    gone: tuple[Peel, ...]
    """Clocks that fit nothing; they have no bounds in `fits`."""


def explain(messages: Messages, *, stretches: Sequence[int] = (4, 16)) -> OffsetsExplained:
    """Find the simplest model that explains the messages.

    Tries constant offsets, then constant rates; then either with few clocks left out; then rates that change from one
    stretch of time to the next.
    """
    for model in (constant_offsets, constant_rates):
        fit = model(messages, None)
        if isinstance(fit, Fit):
            return OffsetsExplained((fit,), ())
    most = max(1, messages.count // 8)
    attempts = [peel(messages, model, most=most) for model in (constant_offsets, constant_rates)]
    fitting = [attempt for attempt in attempts if attempt is not None]
    if fitting:
        best, left_out = min(fitting, key=lambda attempt: len(attempt[1]))
        return OffsetsExplained((best,), tuple(left_out))
    for parts in stretches:
        fits, whole = _in_stretches(messages, parts)
        if whole:
            break
    return OffsetsExplained(tuple(fits), ())


def _in_stretches(messages: Messages, parts: int) -> tuple[list[Fit], bool]:
    """Fit each of so many stretches of time; return the fits, and whether all clocks fit."""
    edges = np.quantile(messages.send, np.linspace(0, 1, parts + 1)[1:-1], method="lower")
    place = np.searchsorted(edges, messages.send, side="right")
    reference: int | None = None
    results: dict[int, tuple[Fit, list[Peel]]] = {}
    for part in sorted(range(parts), key=lambda number: abs(number - parts // 2)):
        best = peel(messages.take(place == part), constant_rates, most=messages.count, reference=reference)
        assert best is not None  # Without any clock there is no contradiction.
        reference, results[part] = best[0].reference, best
    return [results[part][0] for part in range(parts)], not any(left_out for _, left_out in results.values())
