"""Names of processes: two instances of a service never share one, and each is short enough to read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.sources.rows import BadRecord
from ledto.sources.spans.process_names import IDENTIFYING, INSTANCE_ID, LONGEST_TEXT_CHARACTERS, process_name

ODD = st.text(st.sampled_from("ab/%@:.2F405 é"), min_size=1, max_size=6) | st.sampled_from(["x" * 61, "x" * 62])
CONTAINER, POD_ID = "container.id", "k8s.pod.uid"


@given(st.lists(st.tuples(ODD, st.dictionaries(st.sampled_from(IDENTIFYING), ODD)), min_size=2, max_size=2))
def test_what_two_instances_both_say_and_say_differently_tells_them_apart(given: list[Any]) -> None:
    """One name for two instances puts events into an order that nobody observed; odd ids must not bring that about."""
    (service, one), (other_service, other) = given
    if service != other_service:
        assert process_name(service, one) != process_name(other_service, other)
    elif INSTANCE_ID in one and INSTANCE_ID in other:
        same = one[INSTANCE_ID] == other[INSTANCE_ID]
        assert (process_name(service, one) == process_name(service, other)) == same
    elif one.keys() == other.keys() and not one.keys() & {CONTAINER, POD_ID}:
        # A name of pod or host that is given twice counts once, so that two dictionaries may say the same.
        each_once = len({*one.values()}) == len({*other.values()}) == len(one)
        assert one == other or not each_once or process_name(service, one) != process_name(service, other)


@pytest.mark.parametrize(
    ("stronger", "optional"),
    [
        ({INSTANCE_ID: "i-1"}, {name: "x" for name in IDENTIFYING if name != INSTANCE_ID}),
        ({CONTAINER: "3f2a", "process.pid": 1}, {"k8s.pod.name": "p", POD_ID: "u", "host.name": "h", "host.ip": "1"}),
        ({"k8s.pod.name": "p", POD_ID: "u"}, {"host.name": "h", "hostname": "h", "host.id": "7", "ip": ["1", "2"]}),
        ({"k8s.pod.name": "p"}, {"host.name": "p", "hostname": "p"}),
    ],
)
def test_what_a_stronger_attribute_makes_needless_splits_no_instance(stronger: Any, optional: Any) -> None:
    """Collectors add attributes to some requests and not to others: an instance stays one process through that."""
    alone = process_name("auth", stronger)
    assert {process_name("auth", {**stronger, name: value}) for name, value in optional.items()} == {alone}
    assert process_name("auth", {**stronger, **optional}) == alone


def test_ids_that_differ_in_their_last_digit_only_stay_different_when_they_are_cut() -> None:
    """A container's id has 64 digits, which nobody reads in every line; the short form must not merge two of them."""
    ids = [f"{number:064x}" for number in range(1_000)]
    names = {process_name("auth", {"container.id": each}) for each in ids}
    assert len(names) == len(ids)
    assert max(map(len, names)) <= len("auth@") + 60


@pytest.mark.parametrize(
    "attributes",
    [
        {INSTANCE_ID: ["a"]},
        {INSTANCE_ID: "a\0"},
        {"host.name": True},
        {"host.ip": ["10.0.0.1", {}]},
        {"process.pid": 7.5},
        {"k8s.pod.name": "x" * (LONGEST_TEXT_CHARACTERS + 1)},
    ],
    ids=lambda each: str(each)[:40],
)
def test_what_does_not_name_an_instance_is_told(attributes: Any) -> None:
    """A value that was passed over in silence would merge the instances that it tells apart."""
    with pytest.raises(BadRecord, match=next(iter(attributes))):
        process_name("auth", attributes)


def test_a_service_of_unreasonable_length_is_told() -> None:
    """It is copied into every row: a megabyte of a name would be gigabytes of rows."""
    with pytest.raises(BadRecord, match="the limit is 1000"):
        process_name("x" * (LONGEST_TEXT_CHARACTERS + 1), {})
