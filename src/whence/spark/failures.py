"""What Spark says when a run fails, in one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import gettempdir

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from whence.errors import WhenceError
from whence.history.store import NoSpace
from whence.spark.read import explained


class RunFailed(WhenceError):
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
