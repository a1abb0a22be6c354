"""Independent tasks on Spark, in one job: a parameter sweep with real progress."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TypeVar

from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession

from ledto.spark.jobs import run_job
from ledto.spark.session.java import JavaNotFound
from ledto.spark.session.session import spark_context, spark_session
from ledto.spark.tasks import run_pickled

R = TypeVar("R")
S = TypeVar("S", SparkSession, SparkContext)


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
    with _borrowed(SparkSession.getActiveSession(), lambda: spark_session(master=master, config=config)) as session:
        yield session


@contextmanager
def borrowed_context(
    *, master: str | None = "local[*]", config: Mapping[str, str | int | bool] | None = None, brief: bool = False
) -> Iterator[SparkContext]:
    """The same for a context, which runs tasks and no SQL, and starts sooner; `brief` is `spark_session`'s."""
    running = SparkContext._active_spark_context
    with _borrowed(running, lambda: spark_context(master=master, config=config, brief=brief)) as context:
        yield context


@contextmanager
def _borrowed(running: S | None, start: Callable[[], S]) -> Iterator[S]:
    lent = running
    try:
        with _interrupts_held():
            lent = running or _started(start)
        yield lent
    except KeyboardInterrupt:
        if running is None and lent is not None:
            # Stopping amid tasks, Spark logs trace-backs that mean nothing.
            (lent.sparkContext if isinstance(lent, SparkSession) else lent).setLogLevel("OFF")
        raise
    finally:
        if running is None and lent is not None:
            lent.stop()


def _started(start: Callable[[], S]) -> S:
    try:
        return start()
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
    context: SparkContext,
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
        # Tasks may be closures, which only cloudpickle pickles. Unpickled one by one, none waits for what another imports.
        pickled = [cloudpickle.dumps(task) for task in given]  # type: ignore[no-untyped-call]
        return context.parallelize(range(len(given)), len(given)).map(partial(run_pickled, pickled)).collect()

    results = run_job(context, run, f"{description}: {len(given)} tasks", on_progress=lambda done, _: on_progress(done))
    on_progress(len(given))
    return results
