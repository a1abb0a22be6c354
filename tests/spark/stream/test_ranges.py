"""Cutting ranges for micro-batches and tasks: nothing left out, nothing twice, within limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledto.spark.stream.contract import end_of_batch, split_by_weight, split_range
from ledto.spark.stream.nats.jetstream import parse_ack_subject

NUMBERS = st.integers(0, 10**18)
COUNTS = st.integers(1, 50)


@given(NUMBERS, st.integers(-3, 500), COUNTS, COUNTS)
def test_tasks_share_a_range_without_gap_or_overlap(start: int, count: int, parts: int, least: int) -> None:
    """A message between two tasks would be lost, or delivered twice."""
    ranges = split_range(start, start + count, parts=parts, least=least)
    assert [n for begin, stop in ranges for n in range(begin, stop)] == list(range(start, start + count))
    lengths = [stop - begin for begin, stop in ranges]
    assert len(ranges) <= parts
    assert len(ranges) <= 1 or min(lengths) >= least
    assert not lengths or (max(lengths) - min(lengths) <= 1 and min(lengths) > 0)


@given(NUMBERS, st.integers(-3, 500), COUNTS, st.integers(1, 5_000), st.integers(0, 200))
def test_bites_take_a_backlog_in_bounded_steps_to_its_end(
    start: int, count: int, most: int, most_bytes: int, mean_bytes: int
) -> None:
    """A end_of_batch beyond its limit fills the memory; one that is empty before the end would stop the stream for good."""
    stop, at = start + count, start
    while at < stop:
        next_at = end_of_batch(at, stop, most=most, most_bytes=most_bytes, mean_bytes=mean_bytes)
        assert at < next_at <= min(stop, at + most)
        assert next_at == at + 1 or (next_at - at) * mean_bytes <= most_bytes
        at = next_at
    assert end_of_batch(at, stop, most=most, most_bytes=most_bytes, mean_bytes=mean_bytes) == at


@given(st.lists(st.integers(0, 1_000)), COUNTS)
def test_tasks_share_files_by_their_bytes(weights: list[int], parts: int) -> None:
    """All files in one task would leave the other cores idle; a file in no task would be lost."""
    ranges = split_by_weight(weights, parts=parts)
    assert [n for begin, stop in ranges for n in range(begin, stop)] == list(range(len(weights)))
    assert len(ranges) <= parts
    share = (sum(weights) + len(weights)) / parts
    for begin, stop in ranges:
        assert stop > begin
        assert sum(weights[begin : stop - 1]) < share


def test_sequence_and_time_are_found_in_either_form_of_the_subject() -> None:
    """A server in a domain writes two tokens more; read by position alone, the time would be taken for the number."""
    assert parse_ack_subject(b"$JS.ACK.ledto.c.1.41.7.1700000000123456789.0") == (41, 1_700_000_000_123_456_789)
    assert parse_ack_subject(b"$JS.ACK.hub.AbC.ledto.c.1.41.7.1700000000123456789.0") == (41, 1_700_000_000_123_456_789)
    assert parse_ack_subject(b"$JS.ACK.hub.AbC.ledto.c.1.41.7.1700000000123456789.0.x") == (
        41,
        1_700_000_000_123_456_789,
    )
