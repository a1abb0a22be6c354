"""Spark actions with progress, that an interrupt ends."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import TypeVar

from pyspark import InheritableThread, SparkContext

R = TypeVar("R")

POLL_SECONDS = 0.2


def run_job(
    context: SparkContext,
    action: Callable[[], R],
    description: str,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> R:
    """What `action` gives, which runs Spark jobs.

    `on_progress` hears from time to time, in this thread, how many tasks of these jobs have finished and how many are
    known of so far. An exception of the action is raised here; an interrupt cancels what is still running.
    """
    group = f"whence-{uuid.uuid4()}"
    finished = threading.Event()
    results: list[R] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            context.setJobGroup(group, description, interruptOnCancel=True)
            results.append(action())
        except Exception as failure:
            failures.append(failure)
        finally:
            finished.set()

    thread = InheritableThread(target=run)
    thread.start()
    try:
        while not finished.wait(POLL_SECONDS):
            on_progress(*_tasks(context, group))
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        thread.join()
    if failures:
        raise failures[0]
    return results[0]


def _tasks(context: SparkContext, group: str) -> tuple[int, int]:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
