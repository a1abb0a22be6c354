from __future__ import annotations

import io
import re
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.export import ExportRefused, choose, export, formats
from tests.export.returning import exported, hard_history, selections
from tests.questions.test_model import Execution, observed

STRING = r'"((?:[^"\\\n]|\\.)*)"'
NODE = re.compile(
    rf"  subgraph cluster_(\d+) \{{ (?:label={STRING}; )?e(\d+) \[label={STRING}(?:, tooltip={STRING})?\]; \}}"
)
EDGE = re.compile(r"  e(\d+) -> e(\d+) \[(?:color=blue|weight=10, arrowhead=none)\];")


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_the_graph_has_every_event_and_every_way_between_them(seed: int) -> None:
    """Paths in the picture are what happened before what, and names do not break it."""
    with hard_history(seed) as (history, events, random, _):
        for selection, kept in selections(history, events, random):
            lines = exported(history, "dot", selection=selection).decode().removesuffix("\n").split("\n")
            assert (lines[0], lines[-1]) == ("digraph history {", "}")
            clusters: dict[str, set[tuple[str, str]]] = {}
            past: dict[int, set[int]] = {}
            by_position = {event.position: event for event in kept}
            for text in lines[3:-1]:
                if node := NODE.fullmatch(text):
                    event = by_position[int(node[3])]
                    clusters.setdefault(node[1], set()).add((event.computation, event.process))
                    past[event.position] = set()
                else:
                    edge = EDGE.fullmatch(text)
                    assert edge, text
                    cause, effect = int(edge[1]), int(edge[2])
                    past[effect] |= {cause} | past[cause]
            assert past == {
                event.position: {other.position for other in kept if other.happened_before(event)} for event in kept
            }
            assert all(len(processes) == 1 for processes in clusters.values())
            assert len(clusters) == len({(event.computation, event.process) for event in kept})


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(1, 110), max_size=2))
def test_solid_edges_are_recorded_and_others_only_possible(seed: int, cuts: list[int]) -> None:
    """Whoever follows solid edges back would blame what only ran in the same process."""
    execution = Execution(Random(seed), processes=3, events=40, skew=9)
    recorded, wide = execution.paths()
    with TemporaryDirectory() as folder:
        history = observed(Path(folder) / "history", execution, numbered=True, cuts=cuts, eps=10)
        ids = {event.position: event.id for event in history.order()}
        lines = exported(history, "dot").decode().split("\n")
    solid, every = (
        {
            (ids[int(found[1])], ids[int(found[2])])
            for line in lines
            if (found := re.match(r"  e(\d+) -> e(\d+) \[", line)) and (keep or "style=" not in line)
        }
        for keep in (False, True)
    )
    for edges, truth in ((solid, recorded), (every, wide)):
        past: dict[str, set[str]] = {}
        for event in execution.done:
            past[event.id] = {name for cause, effect in edges if effect == event.id for name in (cause, *past[cause])}
        assert past == {event.id: {each.id for each in truth[event]} for event in execution.done}


def test_a_graph_that_no_screen_shows_is_refused() -> None:
    """A layout that never ends is worse than being told what to do."""
    with hard_history(3) as (history, events, _, _), patch.object(formats, "MOST_EVENTS", 10):
        with pytest.raises(ExportRefused, match=r"--around EVENT -k N or --process NAME, or insist with --force-size"):
            export(history, "dot", io.BytesIO())
        assert export(history, "dot", io.BytesIO(), any_size=True).events == len(events) > 10
        few = choose(history, around="@9", k=5)
        assert export(history, "dot", io.BytesIO(), selection=few).events <= 6
