"""Asking a history, and how long that takes: what the benchmarks of questions share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ledto.questions import History

LAST = 100
"""How many causes are asked for: ``ledto why -k 100``."""
COMPARED = 10
"""Events asked of the slow ways, and compared one by one with ours."""
NEAR = 2_000
"""How far apart in history order the events of a pair are at most: farther apart, nearly all are ordered."""


def opened(path: Path) -> History:
    return History(path)


def ask(kept: History, event: int) -> list[int]:
    """Positions of the last causes, the latest first."""
    return [cause.position for cause in reversed(kept.why(event, k=LAST).causes)]


def drawn_events(kept: History, count: int) -> list[int]:
    """Positions, the same in every run: half anywhere, half in the last hundredth."""
    random = np.random.default_rng(7)
    total = len(kept)
    late = random.random(count) < 0.5
    anywhere, at_the_end = random.integers(0, total, count), random.integers(total - total // 100, total, count)
    return [int(position) for position in np.where(late, at_the_end, anywhere)]


def near_pairs(total: int, count: int) -> list[tuple[int, int]]:
    """Random pairs of events that are near enough for all answers to occur."""
    random = np.random.default_rng(10)
    first = random.integers(0, total, count)
    second = np.clip(first + random.integers(-NEAR, NEAR, count), 0, total - 1)
    return list(zip(first.tolist(), second.tolist(), strict=True))


def ask_anew(path: Path, event: int) -> list[int]:
    """The same, of a history that is opened for it."""
    return ask(opened(path), event)


def ask_pair(question: Callable[[int, int], object], pair: tuple[int, int]) -> object:
    """The answer about two events."""
    return question(*pair)


def timed(call: Callable[[Any], object], events: Sequence[Any]) -> list[float]:
    taken = []
    for event in events:
        start = time.perf_counter()
        call(event)
        taken.append(time.perf_counter() - start)
    return taken


def milliseconds(taken: list[float]) -> tuple[float, float]:
    return 1e3 * statistics.median(taken), 1e3 * float(np.percentile(taken, 99))
