"""Requests through services whose clocks are hours apart, written in three ways, and compared with what truly happened."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import ledto
from ledto.batch import observe as observing
from ledto.batch.inline import InlineEngine
from ledto.questions import RELATIONS, Standing
from ledto.sources.inputs import find_inputs
from tests.questions.traced_systems import Instance, System, a_system, as_jaeger, as_otlp, as_zipkin

SEEDS = range(25)


def told(instance: Instance) -> dict[str, Any]:
    return {"host.name": f"machine-{instance.machine}", "process.pid": instance.number}


WAYS = {
    "otlp": lambda system: as_otlp(system, told),
    "jaeger": lambda system: as_jaeger(system, told),
    "zipkin": lambda system: as_zipkin(system, shared=False),
    "zipkin, shared": lambda system: as_zipkin(system, shared=True),
}


def id_of(system: System, number: int, *, end: bool, shared: bool) -> str:
    ran = system.spans[number - 1]
    own = ran.id
    if shared and ran.is_called and ran.parent is not None:
        own = f"{ran.parent.id}/server"
    return own if end else f"{own}/start"


@pytest.mark.parametrize("way", WAYS)
def test_spans_stand_to_each_other_as_they_ran(way: str, tmp_path: Path) -> None:
    """A trace would tell that a cause is innocent, or that what merely came first led to the failure."""
    for seed in SEEDS:
        # Of a call without a client, a shared id does not tell which of the two sides made it.
        system = a_system(seed, bare_calls=not way.endswith("shared"))
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "spans.json").write_bytes(WAYS[way](system))
        inputs = find_inputs([str(folder / "spans.json")], format=way.partition(",")[0])
        observing.observe(InlineEngine(), inputs, folder / "h")
        history = ledto.open(folder / "h")
        truth, recorded = system.happened_before(), system.recorded_before()
        moments = [(ran.number, end) for ran in system.spans for end in (False, True)]
        shared = way.endswith("shared")
        position = {
            each: history.event(id_of(system, each[0], end=each[1], shared=shared)).position for each in moments
        }
        pairs = list(combinations(moments, 2))
        codes = history.relations([position[first] for first, _ in pairs], [position[second] for _, second in pairs])
        for pair, code in zip(pairs, codes.tolist(), strict=True):
            found = RELATIONS[code]
            what = (seed, pair, found)
            assert (found == Standing.BEFORE) == (pair in recorded), what
            assert (found == Standing.AFTER) == (pair[::-1] in recorded), what
            if found == Standing.CONCURRENT:
                assert pair not in truth, what
                assert pair[::-1] not in truth, what
