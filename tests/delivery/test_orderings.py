from __future__ import annotations

import numpy as np

from tests.delivery.records import to_columns
from whence.delivery.orderings import ORDERINGS, hybrid_order
from whence.events.report import Report


def test_orderings() -> None:
    """A comparison would name one order and show another."""
    reports = to_columns(
        [
            Report(1, 1, 5, 0, (), 9),
            Report(0, 2, 4, 3, (), 8),
            Report(0, 1, 4, 0, (), 8),
            Report(2, 1, 3, 2, (), 9),
        ]
    )
    found = {name: order(reports).tolist() for name, order in ORDERINGS.items()}
    assert found == {"arrival": [2, 1, 0, 3], "wall-clock": [3, 2, 1, 0], "largest-clock": [2, 0, 3, 1]}
    logical = np.array([1, 0, 0, 0])
    assert hybrid_order(np.array([5, 5, 5, 4]), logical, reports.process, reports.seq).tolist() == [3, 2, 1, 0]
