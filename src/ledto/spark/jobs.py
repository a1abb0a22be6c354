"""Run Spark jobs: with progress, ended by an interrupt, and with failures explained in one sentence."""

from __future__ import annotations

import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import disk_usage
from tempfile import gettempdir
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PySparkException

from ledto.errors import LedtoError
from ledto.history.store import NoSpace
from ledto.spark.read import find_input_error

R = TypeVar("R")

POLL_SECONDS = 0.2
"""How often progress is looked up."""
FULL_BYTES = 1 << 20
"""A disk with less free space than this counts as full, if a failure says that some disk is."""


def run_job(
    context: SparkContext,
    action: Callable[[], R],
    description: str,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> R:
    """Run an action that runs Spark jobs; return its result.

    `on_progress` is called from time to time, in this thread, with how many tasks of these jobs have finished and how
    many are known so far. Raises what the action raises. An interrupt cancels what is still running.
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
            on_progress(*_count_tasks(context, group))
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        thread.join()
    if failures:
        raise failures[0]
    return results[0]


def _count_tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Count the finished tasks of a job group, and all that are known so far."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    started = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in started), sum(stage.numTasks for stage in started)


class RunFailed(LedtoError):
    """Spark could not finish; the exception's cause has the full text."""


@contextmanager
def explain_failures() -> Iterator[None]:
    """Raise failures of Spark and its tasks as errors of ours.

    That is `SourceError` for a bad input, `NoSpace` for a full disk, and else `RunFailed`.
    """
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        raise (
            find_input_error(failure) or _disk_full_error(failure) or RunFailed(summarise_failure(failure))
        ) from failure


def _disk_full_error(failure: Exception, history: str | os.PathLike[str] | None = None) -> NoSpace | None:
    """Find out whether a full disk is to blame; None if not. A task names the disk, and Spark sometimes does.

    Where it does not, it is the disk of the `history`, on which a stream has its journal, or that of temporary files.
    """
    parts = (failure, *map(failure.__dict__.get, ("_stackTrace", "java_exception")))
    text = "\n".join(str(part) for part in parts)
    if (named := re.search(r"NoSpace: no space left on (.+?): make room there", text)) is not None:
        return NoSpace(named[1])
    if "No space left on device" not in text and "Disk quota exceeded" not in text:
        return None
    written = re.search(r"writing rows to (?:file:)?(/[^\n]+?)/runs/", text)
    if written is not None:
        return NoSpace(written[1])
    if history is not None and os.path.isdir(history) and disk_usage(history).free < FULL_BYTES:
        return NoSpace(history)
    return NoSpace(f"the disk of Spark's temporary files ({_temporary_folders()})")


def _temporary_folders() -> str:
    context = SparkContext._active_spark_context
    configured = None if context is None else context.getConf().get("spark.local.dir")
    return os.environ.get("SPARK_LOCAL_DIRS") or configured or gettempdir()


def summarise_failure(failure: Exception, history: str | os.PathLike[str] | None = None) -> str:
    """Pick the line of a failure that names the exception, a task's own if there is one.

    `history` is what is written to, in case that its disk is full.
    """
    if (disk_full := _disk_full_error(failure, history)) is not None:
        return str(disk_full)
    text = str(getattr(failure, "java_exception", None) or failure)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "Error: " in line or "Exception: " in line] + _last_lines_of_tracebacks(text)
    if len(lines) > 3 and named:
        return f"a task of the run failed: {named[-1]:.400}"
    return (lines or [type(failure).__name__])[0][:400]


def _last_lines_of_tracebacks(text: str) -> list[str]:
    """Find the last lines of Python tracebacks: those after the indented frames."""
    last_lines, in_traceback = [], False
    for line in text.splitlines():
        if "Traceback (most recent call last):" in line:
            in_traceback = True
        elif in_traceback and line.strip() and not line[0].isspace():
            last_lines.append(line.strip())
            in_traceback = False
    return last_lines
