"""Histories for Hypothesis: drawn computations, cut at drawn places, in row groups of drawn sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from ledto.history import layout
from ledto.questions.history import History
from tests.history.building import Made, draw, write_history


@dataclass(frozen=True)
class Drawn:
    """What determines a history."""

    seed: int
    processes: int
    events: int
    cuts: tuple[int, ...]
    small: int
    """Computations that share a segment, besides the one that is cut."""
    ids: bool
    gaps: bool
    numbered: bool
    untimed: bool
    event_rows: int
    skeleton_rows: int


drawn_histories = st.builds(
    Drawn,
    seed=st.integers(0, 2**32),
    processes=st.integers(2, 5),
    events=st.integers(1, 50),
    cuts=st.lists(st.integers(1, 49), max_size=4, unique=True).map(tuple),
    small=st.integers(0, 3),
    ids=st.booleans(),
    gaps=st.booleans(),
    numbered=st.booleans(),
    untimed=st.booleans(),
    event_rows=st.sampled_from((3, 8, 16_384)),
    skeleton_rows=st.sampled_from((2, 5, 65_536)),
)


@contextmanager
def made(drawn: Drawn) -> Iterator[tuple[History, list[Made]]]:
    """The history, open, and its events by position."""
    random = Random(drawn.seed)
    rows = layout.EVENT_ROWS, layout.SKELETON_ROWS
    layout.EVENT_ROWS, layout.SKELETON_ROWS = drawn.event_rows, drawn.skeleton_rows
    try:
        options = {"ids": drawn.ids, "untimed": drawn.untimed}
        gaps = drawn.gaps and drawn.numbered
        large = draw(random, "large", drawn.processes, drawn.events, gaps=gaps, **options)
        small = [draw(random, f"small{each}", 2, 6, **options) for each in range(drawn.small)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a history"
            cuts = [cut for cut in drawn.cuts if cut < drawn.events]
            events = write_history(path, [(large, cuts)], [small] if small else [], numbered=drawn.numbered)
            yield History(path), events
    finally:
        layout.EVENT_ROWS, layout.SKELETON_ROWS = rows
