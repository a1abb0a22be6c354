from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from whence.history import connect, views

from .building import REASON, Made, draw, write_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 'SELECT position, process, seq, id, status, "a b" FROM events ORDER BY position'


@pytest.fixture(scope="module", params=[True, False], ids=["numbered", "counted"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    folder = tmp_path_factory.mktemp("sql") / "it's a history"
    random = Random(5)
    large = [(draw(random, "shop", 3, 40), [15, 30])]
    small = [[draw(random, "bank", 2, 8, ids=True)]]
    return folder, write_history(folder, large, small, numbered=request.param)


def expected_events(events: list[Made]) -> list[tuple[object, ...]]:
    texts = [{name: str(value) for name, value in (event.attributes or {}).items()} for event in events]
    return [
        (event.position, event.process, event.seq, event.id or event.key, text.get("status"), text.get("a b"))
        for event, text in zip(events, texts, strict=True)
    ]


def test_duckdb_sees_the_history(made: tuple[Path, list[Made]]) -> None:
    """Reports and notebooks query the views; they must say what the questions say."""
    folder, events = made
    with connect(folder) as sql:
        assert sql.execute(EVENTS).fetchall() == expected_events(events)
        causes = sorted((event.position, cause.position) for event in events for cause in event.causes)
        assert sql.execute("SELECT effect, cause FROM causes ORDER BY ALL").fetchall() == causes
        assert sql.execute("SELECT reason FROM quarantine").fetchall() == [(REASON,)]
        assert sql.execute("SELECT * FROM deliveries").fetchall() == []
        counted = sql.execute("SELECT computation, sum(events) FROM processes GROUP BY ALL ORDER BY ALL").fetchall()
    assert counted == [("bank", 8), ("shop", 40)]


def test_spark_sees_the_history(made: tuple[Path, list[Made]], spark: SparkSession) -> None:
    """The same views at a scale that DuckDB does not reach."""
    folder, events = made
    for statement in views(folder, dialect="spark").split(";\n"):
        spark.sql(statement.rstrip(";"))
    found = [tuple(row) for row in spark.sql(EVENTS.replace('"', "`")).collect()]
    assert found == expected_events(events)
    causes = sorted((event.position, cause.position) for event in events for cause in event.causes)
    assert sorted((row.effect, row.cause) for row in spark.sql("SELECT * FROM causes").collect()) == causes
    assert spark.sql("SELECT * FROM deliveries").collect() == []
    assert [row.reason for row in spark.sql("SELECT * FROM quarantine").collect()] == [REASON]


def test_another_dialect_is_refused(made: tuple[Path, list[Made]]) -> None:
    """The error names those there are."""
    with pytest.raises(ValueError, match="duckdb, spark"):
        views(made[0], dialect="oracle")
