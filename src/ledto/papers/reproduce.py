"""Repeat the evaluations of papers: plan, run as one sweep, judge, draw, write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from ledto.papers import autonomous, hcg, observer_chapter, rpc_chapter
from ledto.papers.cell import Task
from ledto.papers.observer import FIGURES, collect, list_settings, plan
from ledto.papers.report import Chapter, Effort, write_report

PAPERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "observer": tuple(FIGURES),
        "hcg": ("fig8",),
        "rpc": rpc_chapter.FIGURES,
        "autonomous": ("growth",),
    }
)
"""The papers, each with the names of its figures."""

RunTasks = Callable[[Sequence[Task]], Sequence[Any]]
"""A function that runs tasks, here or elsewhere, and returns their results in the same order."""
TimeCalls = Callable[[bool], Any]
"""A function that times RPCs, quickly or not. Not part of the sweep, because timings need the machine to themselves."""


class UnusableFolder(OSError):
    """The folder cannot be written to. The message says why."""


def run_here(tasks: Sequence[Task]) -> list[Any]:
    """Run tasks one after the other in this process."""
    return [task() for task in tasks]


def time_calls(quick: bool) -> Any:
    """Run Berry's experiment on this machine."""
    from ledto.papers import rpc

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
    """Write every figure and the report into `folder`; make the folder if needed, and replace files of the same names.

    `only` restricts each paper to these figures; empty means all. Raises `UnusableFolder` before anything is run. If the
    run fails or is interrupted, `folder` is unchanged, and is removed if it was made.
    """
    with _staging_folder(folder) as staging:
        chapters = _make_chapters(papers, effort, only, run_tasks, run_calls)
        for chapter in chapters.values():
            for artefact in chapter.artefacts:
                artefact.write(staging)
        write_report(staging, chapters, effort)
    return chapters


def _make_chapters(
    papers: Sequence[str], effort: Effort, only: frozenset[str], run_tasks: RunTasks, run_calls: TimeCalls
) -> dict[str, Chapter]:
    figures = {paper: {name for name in PAPERS[paper] if not only or name in only} for paper in papers}
    chosen = [FIGURES[name] for name in PAPERS["observer"] if name in figures.get("observer", ())]
    settings = list_settings(chosen)
    planned: dict[str, Mapping[Any, Task]] = {
        "observer": plan(settings, seeds=effort.seeds, messages=effort.messages),
        "hcg": hcg.plan(effort) if figures.get("hcg") else {},
        "autonomous": autonomous.plan(effort) if figures.get("autonomous") else {},
    }
    results = iter(run_tasks([task for tasks in planned.values() for task in tasks.values()]))
    results_of = {paper: [next(results) for _ in tasks] for paper, tasks in planned.items()}
    chapters: dict[str, Chapter] = {}
    for paper in papers:
        if not figures[paper]:
            continue
        if paper == "observer":
            chapters[paper] = observer_chapter.make_chapter(
                chosen, collect(settings, planned[paper], results_of[paper])
            )
        elif paper == "hcg":
            chapters[paper] = hcg.make_chapter(planned[paper], results_of[paper])
        elif paper == "autonomous":
            chapters[paper] = autonomous.make_chapter(planned[paper], results_of[paper])
        else:
            chapters[paper] = rpc_chapter.make_chapter(run_calls(effort.quick), figures[paper])
    return chapters


@contextmanager
def _staging_folder(folder: Path) -> Iterator[Path]:
    """Make a temporary folder inside `folder`. Move its files to `folder` at the end, unless there was an error."""
    missing: list[Path] = []
    try:
        try:
            missing += [path for path in (folder, *folder.parents) if not path.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            staging = TemporaryDirectory(prefix=".unfinished-", dir=folder)
        except FileExistsError:
            raise UnusableFolder(f"{folder} is a file: name a folder") from None
        except OSError as error:
            raise UnusableFolder(f"{folder} cannot be made or written to: {error.strerror}") from None
        with staging as name:
            yield Path(name)
            for file in Path(name).iterdir():
                file.replace(folder / file.name)
    except BaseException:
        for made in missing:
            with suppress(OSError):
                made.rmdir()
        raise
