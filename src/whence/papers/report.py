"""REPORT.md and stated.csv: each statement of the papers, what was obtained, met or missed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from whence.papers.artefacts import Artefact
from whence.papers.chapter import Chapter, Effort, Table
from whence.papers.findings import Finding

_LIMITS = (
    "Limits marked *ours* turn words of a paper into numbers, and were written down with preliminary results already "
    "known: they are readings, not predictions. Values stand beside every verdict, so that another limit can be applied. "
    "(!) marks the part of a statement that fails."
)
_QUICK = "**A quick run**: few messages, seeds and rounds. Its verdicts are rough; leave out `--quick` for real ones."


def write_report(folder: Path, chapters: Mapping[str, Chapter], effort: Effort) -> None:
    """Write both files; the same results give the same bytes."""
    statements(chapters).write(folder)
    (folder / "REPORT.md").write_text(_page(chapters, effort), encoding="utf-8")


def statements(chapters: Mapping[str, Chapter]) -> Artefact:
    """Every finding as a row, for machines."""
    rows = [
        (
            name,
            found.where,
            found.says,
            found.means,
            found.limit,
            found.reading,
            found.verdict.word,
            found.verdict.obtained,
        )
        for name, chapter in chapters.items()
        for found in chapter.findings
    ]
    return Artefact("stated", ("paper", "where", "says", "check", "limit", "reading", "verdict", "obtained"), rows)


def _page(chapters: Mapping[str, Chapter], effort: Effort) -> str:
    parts = [
        "# What the papers state, and what was obtained",
        f"{effort.seeds} seeds a cell, {effort.messages:,} messages a run. Values are means over the seeds ± the standard "
        "deviation of one run.",
        *([_QUICK] if effort.quick else []),
        _LIMITS,
    ]
    for chapter in chapters.values():
        parts += [f"## {chapter.title}", *chapter.notes]
        if chapter.findings:
            parts += [_summary(chapter.findings), _findings(chapter.findings)]
        for table in chapter.tables:
            parts += [f"### {table.title}", _markdown(table)]
        parts.append("Files: " + ", ".join(f"[{name}]({name})" for each in chapter.artefacts for name in each.files))
        parts += [f"![{each.stem}]({each.stem}.svg)" for each in chapter.artefacts if each.draw]
    return "\n\n".join(parts) + "\n"


def _summary(findings: tuple[Finding, ...]) -> str:
    lines = []
    for reading in dict.fromkeys(found.reading for found in findings):
        own = [found for found in findings if found.reading == reading]
        by_limit = []
        for limit, name in (("paper", "numbers of the paper"), ("ours", "words with a limit of ours")):
            judged = [found for found in own if found.limit == limit]
            if judged:
                by_limit.append(f"{sum(found.verdict.met for found in judged)} of {len(judged)} {name} met")
        lines.append(f"- **{reading}**: {', '.join(by_limit)}")
    return "\n".join(lines)


def _findings(findings: tuple[Finding, ...]) -> str:
    rows = [
        (
            found.where,
            found.says,
            found.means,
            found.limit,
            found.reading,
            f"**{found.verdict.word}**",
            found.verdict.obtained,
        )
        for found in findings
    ]
    rows.sort(key=lambda row: [(f.where, f.says) for f in findings].index((row[0], row[1])))
    return _markdown(Table("", ("where", "stated", "check", "limit", "reading", "", "obtained"), tuple(rows)))


def _markdown(table: Table) -> str:
    lines = [table.columns, ("---",) * len(table.columns), *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
