from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ledto.papers.observer import FIGURES, list_settings, plan
from ledto.papers.reproduce import run_here
from ledto.spark.sweep import borrowed_session, sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_gives_what_one_process_gives(spark: SparkSession) -> None:
    """Where a cell runs must not show in its numbers, and results must not be swapped between cells."""
    tasks = list(plan(list_settings([FIGURES["fig4"], FIGURES["clocks"]]), seeds=1, messages=200).values())
    heard: list[int] = []
    assert sweep(spark.sparkContext, tasks, on_progress=heard.append) == run_here(tasks)
    assert heard == sorted(heard)
    assert heard[-1] == len(tasks)


def test_a_failing_task_fails_the_sweep(spark: SparkSession) -> None:
    """A cell that silently went missing would shift every curve after it."""

    def fail() -> int:
        raise ArithmeticError("cell 1 is broken")

    with pytest.raises(Exception, match="cell 1 is broken"):
        sweep(spark.sparkContext, [lambda: 1, fail])
    assert sweep(spark.sparkContext, []) == []


def test_a_running_session_is_left_running(spark: SparkSession) -> None:
    """A notebook that reproduces a figure must not lose its session."""
    with borrowed_session() as session:
        assert session.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3
