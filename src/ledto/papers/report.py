"""Judge the statements of the papers, and write REPORT.md and stated.csv: what was obtained, and what is met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledto.papers.artefacts import Artefact
from ledto.papers.findings import Finding, Results, Statement

_LIMITS = (
    "Limits marked *ours* turn words of a paper into numbers. They were written down when preliminary results were already "
    "known: they are readings, not predictions. Each verdict shows its values, so that another limit can be applied. "
    "(!) marks the part of a statement that fails."
)
_QUICK = "**A quick run**: few messages, seeds and rounds. Its verdicts are rough; leave out `--quick` for real ones."


def write_report(folder: Path, chapters: Mapping[str, Chapter], effort: Effort) -> None:
    """Write both files. The same results give the same bytes."""
    list_findings(chapters).write(folder)
    (folder / "REPORT.md").write_text(_write_page(chapters, effort), encoding="utf-8")


def list_findings(chapters: Mapping[str, Chapter]) -> Artefact:
    """Make a table of all findings, for programs."""
    rows = [
        (
            name,
            finding.where,
            finding.says,
            finding.means,
            finding.limit,
            finding.reading,
            finding.verdict.word,
            finding.verdict.obtained,
        )
        for name, chapter in chapters.items()
        for finding in chapter.findings
    ]
    return Artefact("stated", ("paper", "where", "says", "check", "limit", "reading", "verdict", "obtained"), rows)


def _write_page(chapters: Mapping[str, Chapter], effort: Effort) -> str:
    parts = [
        "# What the papers state, and what was obtained",
        f"{effort.seeds} seeds a cell, {effort.messages:,} messages a run. Values are means over the seeds ± the standard "
        "deviation of one run.",
        *([_QUICK] if effort.quick else []),
        "## In short",
    ]
    for chapter in chapters.values():
        parts += [f"**{chapter.title}**", summarise(chapter)]
    parts.append(_LIMITS)
    for chapter in chapters.values():
        parts += [f"## {chapter.title}", *chapter.notes]
        if chapter.findings:
            parts += [_count_met(chapter.findings), _write_findings(chapter.findings)]
        for table in chapter.tables:
            parts += [f"### {table.title}", _write_table(table)]
        files = [name for artefact in chapter.artefacts for name in artefact.files]
        parts.append("Files: " + ", ".join(f"[{name}]({name})" for name in files))
        parts += [f"![{artefact.stem}]({artefact.stem}.svg)" for artefact in chapter.artefacts if artefact.draw]
    return "\n\n".join(parts) + "\n"


def summarise(chapter: Chapter) -> str:
    """List in a few lines which claims stand, which depend on the reading, which fall, and what to use."""
    by_statement = _by_statement(chapter.findings)
    stand, depend, fall = [], [], []
    for (where, says, _, _), by_reading in by_statement.items():
        claim = f"{says} ({where})"
        met = [reading for reading, finding in by_reading.items() if finding.verdict.met]
        if len(met) == len(by_reading):
            stand.append(claim)
        elif met:
            depend.append(f"{claim}: only {' and '.join(met)}")
        else:
            fall.append(claim)
    lines = [
        f"- {name}: {len(claims)} of {len(by_statement)}. {'; '.join(claims)}"
        for name, claims in (("**Stand**", stand), ("**Depend on the reading**", depend), ("**Fall**", fall))
        if claims
    ]
    return "\n".join([*lines, *(f"- **Use**: {sentence}" for sentence in chapter.advice)])


def _by_statement(
    findings: tuple[Finding, ...],
) -> dict[tuple[str, str, str, str], dict[str, Finding]]:
    """Group the findings by where, says, means and limit, in their order; each group has one finding a reading."""
    groups: dict[tuple[str, str, str, str], dict[str, Finding]] = {}
    for finding in findings:
        key = (finding.where, finding.says, finding.means, finding.limit)
        groups.setdefault(key, {})[finding.reading] = finding
    return groups


def _count_met(findings: tuple[Finding, ...]) -> str:
    lines = []
    for reading in dict.fromkeys(finding.reading for finding in findings):
        of_reading = [finding for finding in findings if finding.reading == reading]
        by_limit = []
        for limit, name in (("paper", "numbers of the paper"), ("ours", "words with a limit of ours")):
            judged = [finding for finding in of_reading if finding.limit == limit]
            if judged:
                by_limit.append(f"{sum(finding.verdict.met for finding in judged)} of {len(judged)} {name} met")
        lines.append(f"- **{reading}**: {', '.join(by_limit)}")
    return "\n".join(lines)


def _write_findings(findings: tuple[Finding, ...]) -> str:
    """Write a row for each statement, with the verdicts of all readings side by side."""
    readings = tuple(dict.fromkeys(finding.reading for finding in findings))
    rows = [
        (
            *statement,
            *(f"**{by_reading[name].verdict.word}**: {by_reading[name].verdict.obtained}" for name in readings),
        )
        for statement, by_reading in _by_statement(findings).items()
    ]
    return _write_table(ReportTable("", ("where", "stated", "check", "limit", *readings), tuple(rows)))


def _write_table(table: ReportTable) -> str:
    lines = [table.columns, ("---",) * len(table.columns), *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


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
    advice: tuple[str, ...] = ()
    """Sentences on what to use, made from the results."""


def judge(statements: Sequence[Statement[Results]], reading: str, results: Results, figures: set[str]) -> list[Finding]:
    """Check each statement against the results. Leave out statements that need other figures than these."""
    return [
        Finding(statement.where, statement.says, statement.means, statement.limit, reading, statement.check(results))
        for statement in statements
        if figures.issuperset(statement.figures)
    ]
