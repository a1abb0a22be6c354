"""What a reproduction of one paper takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whence.papers.artefacts import Artefact
from whence.papers.findings import Finding, Results, Stated


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is computed."""

    seeds: int
    messages: int
    quick: bool
    """Fewer sizes and rounds where seeds and messages do not decide the time."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the report."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Chapter:
    """One paper's part of the report."""

    title: str
    notes: tuple[str, ...]
    """Paragraphs: how the experiment was read, and what the reader should know of it."""
    artefacts: tuple[Artefact, ...]
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...] = ()


def hold(statements: Sequence[Stated[Results]], reading: str, results: Results, figures: set[str]) -> list[Finding]:
    """Check every statement for which all the figures it needs are there."""
    return [
        Finding(each.where, each.says, each.means, each.limit, reading, each.check(results))
        for each in statements
        if figures.issuperset(each.figures)
    ]
