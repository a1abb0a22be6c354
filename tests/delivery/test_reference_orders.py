from __future__ import annotations

from ledto.delivery.reference_orders import arrival_order
from ledto.events.report import Report
from tests.delivery.records import to_columns


def test_arrival_order() -> None:
    """A comparison with no reordering would show another order, or depend on how rows of one tick are stored."""
    reports = to_columns(
        [
            Report(1, 1, 5, 0, (), 9),
            Report(0, 2, 4, 3, (), 8),
            Report(0, 1, 4, 0, (), 8),
            Report(2, 1, 3, 2, (), 9),
        ]
    )
    assert arrival_order(reports).tolist() == [2, 1, 0, 3]
