"""From logs to a history: read, survey, order causally, deliver, measure, commit.

Each step takes a DataFrame and gives one, or gives small Python values to the next; the only step that changes what
readers see is the last.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from whence.clocks.errors import WhenceError
from whence.delivery.options import read_policies
from whence.history import layout
from whence.history.clustered import Clustered, File, find_clusters
from whence.history.draft import Draft
from whence.history.manifest import read_manifest
from whence.history.plan import EPOCH_ROWS
from whence.history.segmenting import Target
from whence.sources.files import open_at
from whence.sources.formats import SPAN_FORMATS
from whence.spark.causality import OnStage, Segmented, Segmenter
from whence.spark.delivering import deliver
from whence.spark.failures import failures_told
from whence.spark.jobs import run_job
from whence.spark.linking import link_traces
from whence.spark.matching import match_channels
from whence.spark.reading import Reading, read_reports
from whence.spark.survey import Survey, survey, survey_clusters

STAGING = "staging"
"""Where text is kept as Parquet while a run works on it."""


@failures_told()
def plan_text(
    session: SparkSession,
    inputs: Sequence[str],
    history: str | os.PathLike[str],
    *,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
    eps: int | None = None,
    epoch_rows: int = EPOCH_ROWS,
    on_stage: OnStage = lambda stage, done, total: None,
) -> str:
    """What `observe` would do with these inputs: the epochs, and Spark's plan for them. The history stays as it is."""
    reading = read_reports(session, inputs, format=format, options=options)
    with Draft(history) as draft:
        reports = staged(session, reading, draft, on_stage).reports
        on_stage("survey", 0, 0)
        found, clustered = surveyed(session, reading, reports, draft, epoch_rows)
        target = Target(draft.store, draft.run)
        segmenter = Segmenter(
            session, reports, found, target, clustered=clustered, epoch_rows=epoch_rows, on_stage=on_stage
        )
        bound = segmenter.guess_eps() if eps is None else eps
        plan = segmenter.plan(bound)
        frame = segmenter.frame(plan)
        physical = session.sparkContext._jvm.PythonSQLUtils.explainString(  # type: ignore[union-attr]
            frame._jdf.queryExecution(), "formatted"
        )
    lines = [
        f"{found.reports:,} reports in {len(reading.inputs):,} files, {found.bad:,} of them not readable",
        f"{found.computations:,} computations; {len(plan.large):,} of them are larger than an epoch",
        f"{plan.windows:,} epochs, each read with the rows within {plan.eps:,} of its ends"
        + ("" if eps is not None else " (a guess from samples; the run checks it)"),
        f"columns that have values: {', '.join(found.present)}",
        "",
        str(physical).strip(),
    ]
    return "\n".join(lines)


class NothingDelivered(WhenceError):
    """No report could be used; the history was left as it was."""


@dataclass(frozen=True, slots=True)
class Delivering:
    """What is to be delivered under which policies, as the command line says it."""

    policies: tuple[str, ...] = ("exact",)
    """``NAME`` or ``NAME:PHI``."""
    phi: str | None = None
    delta: int | None = None
    elements: int | None = None
    tick: int | None = None
    as_known: bool = False
    """Whether causes whose reports came too late to be known count for nothing, as in a live history."""

    def check(self) -> None:
        """Raise `ValueError` for policies that do not exist."""
        read_policies(self.policies, phi=self.phi)

    def deliver(
        self, session: SparkSession, target: Target, segmented: Segmented, on_stage: OnStage, *, unit: str
    ) -> dict[str, Any]:
        """Deliver what was made; gives the manifest's part."""
        on_stage("delivery", 0, 0)
        return deliver(
            session,
            target.store,
            target.run,
            segmented.tables.segments,
            segmented.tables.processes,
            self.policies,
            eps=segmented.eps,
            phi=self.phi,
            delta=self.delta,
            elements=self.elements,
            tick=self.tick,
            unit=unit,
            as_known=self.as_known,
            on_progress=lambda done, total: on_stage("delivery", done, total),
        )


@failures_told()
def observe(
    session: SparkSession,
    inputs: Sequence[str],
    history: str | os.PathLike[str],
    *,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
    unit: str = "ns",
    eps: int | None = None,
    delivering: Delivering | None = None,
    epoch_rows: int = EPOCH_ROWS,
    on_stage: OnStage = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Make the history at `history` from these inputs, in place of what is there; gives its manifest.

    Until the end the old history stays as it is and readable; a run that fails or is killed leaves it so. The same inputs
    and options give the same history, however the work was spread. Raises `WhenceError`s that say what to do:
    `SourceError`, `EpsTooSmall`, `TooLarge`, `NothingDelivered`, `RunFailed`.
    """
    on_stage("reading", 0, 0)
    reading = read_reports(session, inputs, format=format, options=options)
    with Draft(history) as draft:
        target = Target(draft.store, draft.run)
        stage = staged(session, reading, draft, on_stage)
        on_stage("survey", 0, 0)
        found, clustered = run_job(
            session, lambda: surveyed(session, reading, stage.reports, draft, epoch_rows), "survey"
        )
        segmenter = Segmenter(
            session, stage.reports, found, target, clustered=clustered, epoch_rows=epoch_rows, on_stage=on_stage
        )
        segmented = segmenter.segments(eps)
        if not segmented.tables.segments.num_rows:
            raise NothingDelivered(_why_nothing(found, segmented, target))
        manifest = describe(reading, found, segmented, unit=unit)
        manifest["channels"] = stage.channels
        manifest |= (delivering or Delivering()).deliver(session, target, segmented, on_stage, unit=unit)
        on_stage("commit", 0, 0)
        draft.store.delete_folder(f"{draft.folder}/{STAGING}")
        for each in segmented.made:
            if each.open_file:
                draft.store.delete(f"{draft.folder}/{each.open_file}")
        draft.commit(manifest, segmented.tables.segments, segmented.tables.processes)
        return read_manifest(draft.store)


@dataclass(frozen=True, slots=True)
class Staged:
    """The reports as they are cut into windows."""

    reports: DataFrame
    channels: dict[str, int]
    """How sends and receives of channels were matched; empty where there are none."""


def staged(session: SparkSession, reading: Reading, draft: Draft, on_stage: OnStage) -> Staged:
    """The reports, as Parquet of the run's own where reading them twice would cost more than writing them once."""
    if not reading.needs_staging:
        return Staged(reading.frame, {})
    folder = draft.store.place(f"{draft.folder}/{STAGING}")
    frame = reading.frame
    matching = None
    if reading.has_channels:
        frame, matching = match_channels(frame)
    write = frame.write.mode("overwrite")
    run_job(
        session,
        lambda: write.option("compression", "lz4").parquet(folder),
        "read text",
        on_progress=lambda done, total: on_stage("reading", done, total),
    )
    reports = session.read.parquet(folder)
    if {*reading.formats} & SPAN_FORMATS:
        reports = link_traces(session, reports)
    return Staged(reports, matching.get() if matching is not None else {})


def surveyed(
    session: SparkSession, reading: Reading, reports: DataFrame, draft: Draft, epoch_rows: int
) -> tuple[Survey, Clustered | None]:
    """What all reports are, and their row groups, if tasks can read their rows by themselves."""
    clustered = clusters_of(reading, draft)
    if clustered is not None and (quick := survey_clusters(session, clustered, window_rows=epoch_rows)) is not None:
        return quick, clustered
    found = survey(reports, window_rows=epoch_rows)
    return found, clustered if reading.needs_staging or not found.bad else None


def clusters_of(reading: Reading, draft: Draft) -> Clustered | None:
    """The row groups that tasks can read by themselves; None where rows need more than that."""
    opener = partial(open_at, compression=None, offset=0)
    if reading.needs_staging:
        folder = f"{draft.folder}/{STAGING}"
        names = [name for name in draft.store.names(folder) if name.endswith(".parquet")]
        files = [File(draft.store.place(f"{folder}/{name}"), name, draft.run) for name in names]
        return find_clusters(files, opener, staged=True, unit=reading.unit)
    files = [File(each.location, each.name, draft.run) for each in reading.inputs]
    return find_clusters(files, opener, staged=False, unit=reading.unit)


def describe(reading: Reading, found: Survey, segmented: Segmented, *, unit: str) -> dict[str, Any]:
    """What the manifest says of a run, apart from deliveries."""
    made = segmented.made
    reasons: Counter[str] = sum((each.reasons for each in made), Counter())
    return {
        "unit": unit,
        "eps": segmented.eps,
        "lag": segmented.lag,
        "lag_event": max(made, key=lambda each: each.lag).lag_event if segmented.lag else None,
        "inputs": [
            {"file": each.name, "bytes": each.size_bytes, "format": name}
            for each, name in zip(reading.inputs, reading.formats, strict=True)
        ],
        "ledger": {
            "reports": found.reports,
            "delivered": sum(each.rows for each in made),
            "duplicate": sum(each.duplicates for each in made),
            "quarantined": sum(each.quarantined for each in made),
            "reasons": dict(sorted(reasons.items())),
            "missing_causes": sum(each.missing for each in made),
        },
        "attributes": sorted({name for each in made for name in each.attributes}),
        "native_columns": [name for name in reading.native_columns if name in found.present],
        "has_ids": any(each.files is not None and each.files.ids_file is not None for each in made),
        "given_seq": found.all_numbered,
        "aside_files": list(segmented.aside_files),
    }


def _why_nothing(found: Survey, segmented: Segmented, target: Target) -> str:
    if not found.reports:
        return "the inputs hold no reports: they are empty"
    first = ""
    if segmented.aside_files:
        with target.store.open(f"{layout.run_folder(target.run)}/{min(segmented.aside_files)}") as file:
            rows = pq.ParquetFile(file).read(use_threads=False)
        at = pc.min_max(rows["place"])["min"].as_py() or 0
        worst = rows.filter(pc.equal(pc.fill_null(rows["place"], 0), at)).slice(0, 1).to_pylist()[0]
        first = f"; the first is {worst['file']}, {worst['place']}: {worst['reason']}"
    return f"none of the {found.reports:,} reports can be used{first}. Is --format the right one?"
