"""Define the parts of the report on one paper, and judge its statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whence.papers.artefacts import Artefact
from whence.papers.findings import Finding, Results, Statement


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to compute."""

    seeds: int
    messages: int
    quick: bool
    """Whether to use fewer sizes and rounds, where seeds and messages do not decide the time."""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of the report."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Chapter:
    """The part of the report on one paper."""

    title: str
    notes: tuple[str, ...]
    """Paragraphs on how the experiment was read, and what the reader should know of it."""
    artefacts: tuple[Artefact, ...]
    findings: tuple[Finding, ...]
    tables: tuple[ReportTable, ...] = ()


def judge(statements: Sequence[Statement[Results]], reading: str, results: Results, figures: set[str]) -> list[Finding]:
    """Check each statement against the results. Leave out statements that need other figures than these."""
    return [
        Finding(statement.where, statement.says, statement.means, statement.limit, reading, statement.check(results))
        for statement in statements
        if figures.issuperset(statement.figures)
    ]
