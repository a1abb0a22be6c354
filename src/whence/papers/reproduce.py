"""All of a paper's evaluation, or all papers', in one go: plan, run as one sweep, draw, judge, write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from whence.papers import autonomous, hcg, rpc_chapter
from whence.papers.cell import Task
from whence.papers.chapter import Chapter, Effort
from whence.papers.observer import collect, plan, wanted
from whence.papers.observer_chapter import observer_chapter
from whence.papers.observer_figures import FIGURES
from whence.papers.report import write_report

PAPERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "observer": tuple(FIGURES),
        "hcg": ("fig8",),
        "rpc": rpc_chapter.FIGURES,
        "autonomous": ("growth",),
    }
)
"""Every paper, with the figures that can be made alone."""

RunTasks = Callable[[Sequence[Task]], Sequence[Any]]
"""Runs tasks anywhere and gives their results in the same order."""
TimeCalls = Callable[[bool], Any]
"""Times RPCs, quickly or not; it is not part of the sweep because timings need the machine to themselves."""


def run_here(tasks: Sequence[Task]) -> list[Any]:
    """One after the other in this process."""
    return [task() for task in tasks]


def time_calls(quick: bool) -> Any:
    """Berry's experiment, on this machine."""
    from whence.papers import rpc

    return rpc.measure(sizes=(2, 5, 10, 20, 50, 100), rounds=8, calls=10) if quick else rpc.measure()


def reproduce(
    papers: Sequence[str],
    folder: Path,
    effort: Effort,
    *,
    only: frozenset[str] = frozenset(),
    run_tasks: RunTasks = run_here,
    run_calls: TimeCalls = time_calls,
) -> dict[str, Chapter]:
    """Write every figure and the report into `folder`, which is made if need be; existing files of ours are replaced.

    `only` restricts each paper to these figures; empty means all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures = {paper: {name for name in PAPERS[paper] if not only or name in only} for paper in papers}
    chosen = [FIGURES[name] for name in PAPERS["observer"] if name in figures.get("observer", ())]
    settings = wanted(chosen)
    planned: dict[str, Mapping[Any, Task]] = {
        "observer": plan(settings, seeds=effort.seeds, messages=effort.messages),
        "hcg": hcg.plan(effort) if figures.get("hcg") else {},
        "autonomous": autonomous.plan(effort) if figures.get("autonomous") else {},
    }
    results = iter(run_tasks([task for tasks in planned.values() for task in tasks.values()]))
    done = {paper: [next(results) for _ in tasks] for paper, tasks in planned.items()}
    chapters: dict[str, Chapter] = {}
    for paper in papers:
        if not figures[paper]:
            continue
        if paper == "observer":
            chapters[paper] = observer_chapter(chosen, collect(settings, planned[paper], done[paper]))
        elif paper == "hcg":
            chapters[paper] = hcg.chapter(planned[paper], done[paper])
        elif paper == "autonomous":
            chapters[paper] = autonomous.chapter(planned[paper], done[paper])
        else:
            chapters[paper] = rpc_chapter.rpc_chapter(run_calls(effort.quick), figures[paper])
    for chapter in chapters.values():
        for artefact in chapter.artefacts:
            artefact.write(folder)
    write_report(folder, chapters, effort)
    return chapters
