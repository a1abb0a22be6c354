"""Make a history from logs: read, survey, order causally, deliver, measure, commit.

Only the last step changes what readers see.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledto.batch.deliver import Delivered, deliver
from ledto.batch.engine import Engine, OnStage, RunReports, ignore_stages
from ledto.batch.inline import InlineEngine
from ledto.batch.number import Tables
from ledto.batch.segments import EvenPlanner, Planner, Segmented, make_segments
from ledto.batch.survey import Survey
from ledto.delivery.policies import read_policies
from ledto.durations import LONGEST
from ledto.errors import LedtoError
from ledto.history import layout
from ledto.history.attribute_types import merge_types
from ledto.history.draft import Draft
from ledto.history.manifest import Description, Input, Ledger, Manifest, read_manifest
from ledto.history.store import Store
from ledto.history.window.plan import EPOCH_ROWS
from ledto.history.window.segment import SegmentTarget
from ledto.sources.inputs import Inputs


class NothingDelivered(LedtoError):
    """No report could be used; the history was left as it was."""


@dataclass(frozen=True, slots=True)
class Delivering:
    """The policies of a run and their settings, as on the command line."""

    policies: tuple[str, ...] = ("exact",)
    """``NAME`` or ``NAME:PHI``."""
    phi: str | None = None
    delta: int | None = None
    elements: int | None = None
    tick: int | None = None
    as_known: bool = False
    """Whether to ignore causes whose reports came too late to be known, as in a live history."""

    def check(self) -> None:
        """Raise `ValueError` for policies that do not exist."""
        read_policies(self.policies, phi=self.phi)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How to make a run, apart from what it reads and where it writes."""

    unit: str = "ns"
    eps: int | None = None
    """How far clocks differ at most, in `unit`; None to find it in the data."""
    epoch_rows: int = EPOCH_ROWS
    """About how many rows an epoch has."""
    delivering: Delivering = field(default_factory=Delivering)

    def __post_init__(self) -> None:
        """Raise `ValueError` for lengths that cannot be added to times."""
        lengths = {"eps": self.eps, "delta": self.delivering.delta, "tick": self.delivering.tick}
        for name, length in lengths.items():
            if length is not None and not 0 <= length <= LONGEST:
                raise ValueError(f"{name} is a whole number of {self.unit} from 0 to {LONGEST}, not {length}")


@dataclass(frozen=True, slots=True)
class RunMade:
    """A run whose files are written, but which is not committed. Pickles."""

    description: Description
    tables: Tables


def observe(
    engine: Engine,
    inputs: Inputs,
    history: str | os.PathLike[str],
    settings: RunSettings | None = None,
    *,
    on_stage: OnStage = ignore_stages,
) -> Manifest:
    """Make the history at `history` from these inputs, replacing an older one; give its manifest.

    The old history stays readable until the commit, and for good if the run fails or is killed. The same inputs and
    settings give the same history, with any engine and however the work is spread. Raises `LedtoError`s that say what to
    do: `SourceError`, `EpsTooSmall`, `TooLarge`, `NothingDelivered`, and the engine's own.
    """
    settings = settings or RunSettings()
    on_stage("reading", 0, 0)
    with Draft(history) as draft:
        target = SegmentTarget(draft.store, draft.run)
        if engine.takes_at_once(inputs):
            made = _at_once(engine, inputs, target, settings)
        else:
            made = make_run(engine, inputs, target, settings, on_stage)
        on_stage("commit", 0, 0)
        draft.store.delete_folder(f"{draft.folder}/{layout.STAGING}")
        draft.commit(made.description, made.tables.segments, made.tables.processes)
        return read_manifest(draft.store)


def make_run(
    engine: Engine, inputs: Inputs, target: SegmentTarget, settings: RunSettings, on_stage: OnStage = ignore_stages
) -> RunMade:
    """Carry out all steps of a run but the commit."""
    reports = engine.read(inputs, target, on_stage)
    on_stage("survey", 0, 0)
    survey = reports.survey(window_rows=settings.epoch_rows)
    planner = EvenPlanner(reports, survey, epoch_rows=settings.epoch_rows)
    return run_from(engine, inputs, reports, survey, planner, target, settings, on_stage)


def run_from(
    engine: Engine,
    inputs: Inputs,
    reports: RunReports,
    survey: Survey,
    planner: Planner,
    target: SegmentTarget,
    settings: RunSettings,
    on_stage: OnStage = ignore_stages,
) -> RunMade:
    """Order, deliver and measure reports that were read and surveyed; the planner cuts them into windows."""
    on_stage("causality", 0, 0)
    segmented = make_segments(
        engine, reports, survey, planner, target, eps=settings.eps, unit=settings.unit, on_stage=on_stage
    )
    if not segmented.tables.segments.num_rows:
        raise NothingDelivered(_why_nothing(survey, segmented, target))
    on_stage("delivery", 0, 0)
    delivering = settings.delivering
    delivered = deliver(
        engine,
        target.store,
        target.run,
        segmented.tables.segments,
        segmented.tables.processes,
        delivering.policies,
        eps=segmented.eps,
        phi=delivering.phi,
        delta=delivering.delta,
        elements=delivering.elements,
        tick=delivering.tick,
        unit=settings.unit,
        as_known=delivering.as_known,
        on_progress=lambda done, total: on_stage("delivery", done, total),
    )
    return RunMade(_describe(inputs, reports, survey, segmented, delivered, unit=settings.unit), segmented.tables)


def _at_once(engine: Engine, inputs: Inputs, target: SegmentTarget, settings: RunSettings) -> RunMade:
    """Let one task carry out all steps inline. For a small input, starting a job for each step would take longest."""
    (outcome,) = engine.run_tasks([partial(_made_or_refused, inputs, target, settings)], "the whole run")
    if isinstance(outcome, LedtoError):
        raise outcome
    return outcome


def _made_or_refused(inputs: Inputs, target: SegmentTarget, settings: RunSettings) -> RunMade | LedtoError:
    # An error that a task raises reaches Spark's driver as text; one that it returns keeps its type.
    try:
        return make_run(InlineEngine(), inputs, target, settings)
    except LedtoError as refused:
        return refused.with_traceback(None)


def explain(
    engine: Engine, inputs: Inputs, history: str | os.PathLike[str], settings: RunSettings | None = None,
    *, on_stage: OnStage = ignore_stages,
) -> str:  # fmt: skip
    """Describe what `observe` would do with these inputs: the epochs, and the engine's plan for them. Writes nothing."""
    settings = settings or RunSettings()
    reports = engine.read(inputs, None, on_stage)
    on_stage("survey", 0, 0)
    survey = reports.survey(window_rows=settings.epoch_rows)
    planner = EvenPlanner(reports, survey, epoch_rows=settings.epoch_rows)
    plan = planner.plan(planner.guess_eps() if settings.eps is None else settings.eps)
    lines = [
        f"{_count(survey.reports, 'report')} in {_count(len(inputs.files), 'file')}; not readable: {survey.bad:,}",
        f"{_count(survey.computations, 'computation')}; larger than an epoch: {len(plan.large):,}",
        f"{_count(plan.windows, 'epoch')}, each read with the rows within {plan.eps:,} of its ends"
        + ("" if settings.eps is not None else " (a guess from samples; the run checks it)"),
        f"columns that have values: {', '.join(survey.present)}",
        "",
        reports.explain(plan, survey.present, SegmentTarget(Store(history), "explained")),
    ]
    return "\n".join(lines)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _describe(
    inputs: Inputs, reports: RunReports, survey: Survey, segmented: Segmented, delivered: Delivered, *, unit: str
) -> Description:
    made = segmented.made
    lag_event = max(made, key=lambda segment: segment.clock_lag).lag_event if segmented.lag else None
    reasons: Counter[str] = sum((segment.reasons for segment in made), Counter())
    return Description(
        unit=unit,
        eps=segmented.eps,
        lag=segmented.lag,
        lag_event=None if lag_event is None else lag_event.describe(unit),
        inputs=tuple(
            Input(file.name, file.size_bytes, name) for file, name in zip(inputs.files, inputs.formats, strict=True)
        ),
        ledger=Ledger(
            reports=survey.reports,
            delivered=sum(segment.rows for segment in made),
            duplicate=sum(segment.duplicates for segment in made),
            quarantined=sum(segment.quarantined for segment in made),
            reasons=dict(sorted(reasons.items())),
            missing_causes=sum(segment.missing for segment in made),
        ),
        attributes=merge_types(segment.attributes for segment in made),
        native_columns=tuple(name for name in reports.native_columns if name in survey.present),
        has_ids=any(segment.files is not None and segment.files.ids_file is not None for segment in made),
        given_seq=survey.all_numbered,
        quarantine_files=segmented.quarantine_files,
        channels=dict(reports.channels),
        policies=delivered.policies,
        wall_clock=delivered.wall_clock,
        clocks=delivered.clocks,
    )


def _why_nothing(survey: Survey, segmented: Segmented, target: SegmentTarget) -> str:
    """Say why no report could be used, with the first quarantined one as an example."""
    if not survey.reports:
        return "the inputs hold no reports: they are empty"
    first = ""
    if segmented.quarantine_files:
        with target.store.open(f"{layout.run_folder(target.run)}/{min(segmented.quarantine_files)}") as file:
            rows = pq.ParquetFile(file).read(use_threads=False)
        at = pc.min_max(rows["place"])["min"].as_py() or 0
        row = rows.filter(pc.equal(pc.fill_null(rows["place"], 0), at)).slice(0, 1).to_pylist()[0]
        which = "it is" if survey.reports == 1 else "the first is"
        first = f"; {which} {row['file']}, {row['place']}: {row['reason']}"
    subject = "the one report cannot" if survey.reports == 1 else f"none of the {survey.reports:,} reports can"
    return f"{subject} be used{first}. Is --format the right one?"
