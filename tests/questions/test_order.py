from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from ledto.history import UnknownPolicy, layout
from ledto.history.sealed import write_sealed_table
from ledto.history.store import Store
from ledto.questions import History, connect
from tests.history.building import draw, write_history
from tests.history.manifests import policy, rewrite

DELIVERIES = pa.schema(
    [("at", pa.int64()), ("waited", pa.int64()), ("late", pa.bool_()), ("lead", pa.int64()), ("tie", pa.int32())]
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("statistics", [True, False])
def test_deliveries_of_segments_become_one_order(seed: int, statistics: bool, tmp_path: Path) -> None:
    """Segments overlap in delivery time, so a policy's order crosses their edges; events it cannot place come last."""
    random = Random(seed)
    events = write_history(tmp_path, [(draw(random, "", 3, 60), [10, 25, 26])], [])
    run = History(tmp_path).run
    rows = []
    for event in events:
        at = None if event.number % 9 == 0 else event.position // 3 + random.randint(0, 12)
        rows.append(
            {
                "at": at,
                "waited": at,
                "late": at and at % 2 == 0,
                "lead": random.randint(0, 3),
                "tie": event.position % 4,
            }
        )
    files = []
    for number, first in enumerate(run.segments.first_position.tolist()):
        table = pa.Table.from_pylist(rows[first : first + int(run.segments.rows[number])], DELIVERIES)
        stem = f"delivery-cbd-{number:05d}"
        files.append(write_sealed_table(run.store, run.name, stem, table, write_statistics=statistics))
    rewrite(Store(tmp_path), policies={"cbd": policy("cbd", *files)})
    history = History(tmp_path)
    last = 1 << 60

    def key(position: int) -> tuple[object, ...]:
        row = rows[position]
        return (last if row["at"] is None else row["at"], row["lead"], row["tie"], position)

    expected = sorted(range(len(events)), key=key)
    assert [event.position for event in history.order(policy="cbd")] == expected
    (table,) = [pa.concat_tables(history.order_tables(policy="cbd"))]
    assert table["at"].to_pylist() == [rows[position]["at"] for position in expected]
    assert table["process"].to_pylist() == [events[position].process for position in expected]
    with connect(tmp_path) as sql:
        found = sql.execute(
            "SELECT position, \"at\", late FROM deliveries WHERE policy = 'cbd' ORDER BY position"
        ).fetchall()
    assert found == [(position, row["at"], row["late"]) for position, row in enumerate(rows)]
    with pytest.raises(UnknownPolicy, match="it has cbd"):
        next(history.order(policy="dapw"))


def test_constants_of_the_layout_are_those_of_the_format() -> None:
    """Readers find rows by these numbers: another number needs another format."""
    assert (layout.FORMAT, layout.EVENT_ROWS, layout.SKELETON_ROWS) == (10, 8_192, 65_536)
