"""Whatever is sent, every report is accounted for once, nothing waits for ever, and the steps change nothing."""

from __future__ import annotations

import pytest

from tests.live.wild import check_stream

FOUND = (4, 11, 14, 40, 51)
"""Seeds of streams that once had something wrong; `benchmarks/streams.py` looks through 100,000."""


@pytest.mark.parametrize("seed", [*FOUND, *range(1_000, 1_005)])
def test_nothing_that_is_sent_breaks_a_stream(seed: int) -> None:
    """Three reports once stopped the live service for everybody, and only streams that nobody would send showed it."""
    assert check_stream(seed) == []
