"""What Spark says when a run fails, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from whence.clocks.errors import WhenceError
from whence.spark.reading import explained


class RunFailed(WhenceError):
    """Spark could not finish; the cause has what it said at length."""


@contextmanager
def failures_told() -> Iterator[None]:
    """Failures of Spark and of its tasks are raised as `RunFailed`, or as `SourceError` if an input is damaged or gone."""
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        raise explained(failure) or RunFailed(in_a_sentence(failure)) from failure


def in_a_sentence(failure: Exception) -> str:
    """The line of a failure that names the exception; a task's own where there is one."""
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
