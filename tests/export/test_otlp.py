from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.clocks import Relation
from ledto.clocks.vector.stamp import VectorStamp
from ledto.export.otlp import RECORDS, trace_id
from tests.export.returning import exported, hard_history, selections
from tests.history.building import Made


def value_of(value: dict[str, Any]) -> Any:
    (kind, content), *others = value.items()
    assert not others
    if kind == "arrayValue":
        return [value_of(each) for each in content["values"]]
    return {"intValue": int}.get(kind, lambda it: it)(content)


def records(data: bytes) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Service, record and attributes of each record, in the order of their positions."""
    found = []
    for line in data.decode().removesuffix("\n").split("\n"):
        in_line = 0
        for resource in json.loads(line)["resourceLogs"]:
            (service,) = resource["resource"]["attributes"]
            assert service["key"] == "service.name"
            for record in resource["scopeLogs"][0]["logRecords"]:
                attributes = {each["key"]: value_of(each["value"]) for each in record["attributes"]}
                assert len(attributes) == len(record["attributes"])
                found.append((service["value"]["stringValue"], record, attributes))
                in_line += 1
        assert 0 < in_line <= RECORDS
    return found


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_stamps_and_times_are_true(seed: int) -> None:
    """Another tool that compares stamps, or only sorts by time within its means, is not misled."""
    with hard_history(seed) as (history, events, random, _):
        for selection, kept in selections(history, events, random):
            found = records(exported(history, "otlp", selection=selection))
            named = {(event.computation, event.process, event.seq): event for event in kept}
            stamps: list[tuple[Made, VectorStamp]] = []
            for service, record, told in found:
                event = named.pop((told["ledto.computation"], told["ledto.process"], told["ledto.seq"]))
                assert service == event.process
                assert record["timeUnixNano"] == str(event.time or 0)
                assert (told.get("ledto.time"), told.get("ledto.corrected_time")) == (event.time, event.time)
                assert told.get("ledto.name") == event.name
                assert record["traceId"] == trace_id(event.computation)
                assert (event.attributes or {}).items() <= told.items()
                stamps.append((event, VectorStamp.from_json(json.loads(told["ledto.stamp"]))))
            assert not named
            for one, stamp in stamps:
                for other, second in stamps:
                    if one.computation == other.computation and one is not other:
                        before = stamp.relation_to(second) is Relation.BEFORE
                        assert before == one.happened_before(other)


@pytest.mark.parametrize(
    ("computation", "kept"),
    [("0af7651916cd43dd8448eb211c80319c", True), ("0" * 32, False), ("A" * 32, False), ("", False), ("shop", False)],
)
def test_a_trace_id_is_kept_or_made(computation: str, kept: bool) -> None:
    """Backends refuse ids that are not 32 digits, or all zero, and join what has the same one."""
    found = trace_id(computation)
    assert (found == computation) == kept
    assert len(found) == 32
    assert set(found) <= set("0123456789abcdef")
    assert int(found, 16)
    assert found == trace_id(computation) != trace_id(f"{computation}.")
