"""Run Spark jobs with progress that an interrupt ends, and say in one sentence why a run failed."""

from __future__ import annotations

import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import gettempdir
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PySparkException

from ledto.errors import LedtoError
from ledto.history.store import NoSpace
from ledto.spark.read import explained

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
    group = f"ledto-{uuid.uuid4()}"
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


class RunFailed(LedtoError):
    """Spark could not finish; the cause has what it said at length."""


@contextmanager
def failures_told() -> Iterator[None]:
    """Raise failures of Spark and of its tasks as `RunFailed`, `SourceError` for a bad input, `NoSpace` for a full disk."""
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        raise explained(failure) or _without_space(failure) or RunFailed(in_a_sentence(failure)) from failure


def _without_space(failure: Exception) -> NoSpace | None:
    """The error about the disk that is full, if that is why it failed; a task names it, and so does Spark now and then."""
    said = "\n".join(str(each) for each in (failure, *map(failure.__dict__.get, ("_stackTrace", "java_exception"))))
    if (found := re.search(r"NoSpace: no space left on (.+?): make room there", said)) is not None:
        return NoSpace(found[1])
    if "No space left on device" not in said and "Disk quota exceeded" not in said:
        return None
    found = re.search(r"writing rows to (?:file:)?(/[^\n]+?)/runs/", said)
    return NoSpace(found[1] if found else f"the disk of Spark's temporary files ({_temporary_folders()})")


def _temporary_folders() -> str:
    context = SparkContext._active_spark_context
    told = None if context is None else context.getConf().get("spark.local.dir")
    return os.environ.get("SPARK_LOCAL_DIRS") or told or gettempdir()


def in_a_sentence(failure: Exception) -> str:
    """The line of a failure that names the exception; a task's own where there is one."""
    if (full := _without_space(failure)) is not None:
        return str(full)
    said = str(getattr(failure, "java_exception", None) or failure)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line or "Exception: " in line] + _raised(said)
    if len(lines) > 3 and told:
        return f"a task of the run failed: {told[-1]:.400}"
    return (lines or [type(failure).__name__])[0][:400]


def _raised(said: str) -> list[str]:
    """What Python tracebacks end with: the line after their frames, which are indented."""
    found, inside = [], False
    for line in said.splitlines():
        if "Traceback (most recent call last):" in line:
            inside = True
        elif inside and line.strip() and not line[0].isspace():
            found.append(line.strip())
            inside = False
    return found
