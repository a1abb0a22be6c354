"""Runs on a session that tests share, or in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledto.batch.engine import OnStage, ignore_stages
from ledto.batch.inline import InlineEngine
from ledto.batch.observe import Delivering, RunSettings
from ledto.batch.observe import explain as explain_with
from ledto.batch.observe import observe as observe_with
from ledto.history.manifest import Manifest
from ledto.history.window.plan import EPOCH_ROWS
from ledto.sources.inputs import find_inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ledto.spark.read import Reading


def observe(
    session: SparkSession | None,
    inputs: Sequence[str],
    history: Path,
    *,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
    unit: str = "ns",
    eps: int | None = None,
    delivering: Delivering | None = None,
    epoch_rows: int = EPOCH_ROWS,
    at_once_bytes: int = 0,
    on_stage: OnStage = ignore_stages,
) -> Manifest:
    """Make a history on Spark, by default with a job for each step however small the inputs are; in this process without."""
    from ledto.spark.engine import SparkEngine

    engine = InlineEngine() if session is None else SparkEngine(session, at_once_bytes=at_once_bytes)
    settings = RunSettings(unit, eps, epoch_rows, delivering or Delivering())
    return observe_with(
        engine, find_inputs(inputs, format=format, options=options), history, settings, on_stage=on_stage
    )


def explain(session: SparkSession, inputs: Sequence[str], history: Path, *, epoch_rows: int = EPOCH_ROWS) -> str:
    """Say what `observe` would do."""
    from ledto.spark.engine import SparkEngine

    return explain_with(SparkEngine(session), find_inputs(inputs), history, RunSettings(epoch_rows=epoch_rows))


def read_reports(
    session: SparkSession, inputs: Sequence[str], *, format: str | None = None, options: Mapping[str, Any] | None = None
) -> Reading:
    """Describe the reports of these inputs."""
    from ledto.spark.read import read_frame

    return read_frame(session, find_inputs(inputs, format=format, options=options))
