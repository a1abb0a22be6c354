"""Independent tasks on Spark, in one job: a parameter sweep with real progress."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from pyspark.sql import SparkSession

from whence.spark.java import JavaNotFound
from whence.spark.jobs import run_job
from whence.spark.session import spark_session

R = TypeVar("R")


class SparkNotStarted(RuntimeError):
    """No session could be had; the message is the reason, without Java's trace-back, which the cause has."""


@contextmanager
def borrowed_session(
    *, master: str | None = "local[*]", config: Mapping[str, str | int | bool] | None = None
) -> Iterator[SparkSession]:
    """The session that is running, which is left running; or a new one on `master`, which is stopped at the end.

    What the caller does at an interrupt stays as it is: Spark would cancel all jobs, and `sweep` cancels its own.
    Raises `SparkNotStarted`.
    """
    running = session = SparkSession.getActiveSession()
    try:
        with _interrupts_held():
            session = running or _started(master, config)
        yield session
    except KeyboardInterrupt:
        if running is None and session is not None:
            session.sparkContext.setLogLevel("OFF")  # Stopping amid tasks, Spark logs trace-backs that mean nothing.
        raise
    finally:
        if running is None and session is not None:
            session.stop()


def _started(master: str | None, config: Mapping[str, str | int | bool] | None) -> SparkSession:
    try:
        return spark_session(master=master, config=config)
    except JavaNotFound as failure:
        raise SparkNotStarted(str(failure)) from failure
    except Exception as failure:
        # Py4j's own message only says which call failed; Java's says why.
        reason = str(getattr(failure, "java_exception", failure)).strip()
        raise SparkNotStarted(reason.partition("\n")[0] or type(failure).__name__) from failure


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """The first interrupt takes effect at the end, in the caller's way; a second one at once.

    PySpark that is interrupted while it starts Java leaves a Java process behind that never ends.
    """
    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, _: FrameType | None) -> None:
        held.append(number)
        if len(held) > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, on_interrupt)
        if held:
            signal.raise_signal(signal.SIGINT)


def sweep(
    session: SparkSession,
    tasks: Sequence[Callable[[], R]],
    *,
    description: str = "sweep",
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[R]:
    """Call every task on a worker, each as a Spark task of its own; the results in the order of the tasks.

    Tasks and results must pickle; a task must not depend on where or when it runs, since Spark may run it twice.
    `on_progress` hears from time to time, in this thread, how many tasks have finished. A task's exception ends the
    sweep; an interrupt cancels what is still running.
    """
    if not tasks:
        return []
    given = list(tasks)

    def run() -> list[R]:
        # The tasks travel with the function, which is pickled with cloudpickle, and not as the data, which is not.
        places = session.sparkContext.parallelize(range(len(given)), len(given))
        return places.map(lambda i: given[i]()).collect()

    results = run_job(session, run, f"{description}: {len(given)} tasks", on_progress=lambda done, _: on_progress(done))
    on_progress(len(given))
    return results
