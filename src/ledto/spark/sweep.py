"""Run independent tasks on Spark in one job, such as a parameter sweep, with real progress."""

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
    """Spark did not start. The message is the reason; the cause has Java's traceback."""


@contextmanager
def borrowed_session(
    *, master: str | None = "local[*]", config: Mapping[str, str | int | bool] | None = None
) -> Iterator[SparkSession]:
    """Use the running session and leave it running; or start a new one on `master`, and stop it at the end.

    The caller's handling of interrupts stays in force: Spark's would cancel all jobs, while `sweep` cancels its own.
    Raises `SparkNotStarted`.
    """
    with _borrow(SparkSession.getActiveSession(), lambda: spark_session(master=master, config=config)) as session:
        yield session


@contextmanager
def borrowed_context(
    *, master: str | None = "local[*]", config: Mapping[str, str | int | bool] | None = None, brief: bool = False
) -> Iterator[SparkContext]:
    """Do the same with a context, which runs tasks but no SQL and starts sooner; `brief` as in `spark_session`."""
    running = SparkContext._active_spark_context
    with _borrow(running, lambda: spark_context(master=master, config=config, brief=brief)) as context:
        yield context


@contextmanager
def _borrow(running: S | None, start: Callable[[], S]) -> Iterator[S]:
    borrowed = running
    try:
        with _hold_interrupts():
            borrowed = running or _start(start)
        yield borrowed
    except KeyboardInterrupt:
        if running is None and borrowed is not None:
            # When it is stopped amid tasks, Spark logs tracebacks that mean nothing.
            (borrowed.sparkContext if isinstance(borrowed, SparkSession) else borrowed).setLogLevel("OFF")
        raise
    finally:
        if running is None and borrowed is not None:
            borrowed.stop()


def _start(start: Callable[[], S]) -> S:
    try:
        return start()
    except JavaNotFound as failure:
        raise SparkNotStarted(str(failure)) from failure
    except Exception as failure:
        # Py4j's own message only says which call failed; Java's says why.
        reason = str(getattr(failure, "java_exception", failure)).strip()
        raise SparkNotStarted(reason.partition("\n")[0] or type(failure).__name__) from failure


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Delay the first interrupt to the end, where the caller's handler gets it; a second one takes effect at once.

    If PySpark is interrupted while it starts Java, it leaves a Java process behind that never ends.
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
    """Call every task on a worker, each as a Spark task of its own; return the results in the order of the tasks.

    Tasks and results must pickle. A task must not depend on where or when it runs: Spark may run it twice.
    `on_progress` is called from time to time, in this thread, with how many tasks have finished. An exception of a task
    ends the sweep; an interrupt cancels what is still running.
    """
    if not tasks:
        return []
    all_tasks = list(tasks)

    def run() -> list[R]:
        # Tasks may be closures, which only cloudpickle pickles. Each is unpickled alone, so that none waits for another's
        # imports.
        pickled = [cloudpickle.dumps(task) for task in all_tasks]  # type: ignore[no-untyped-call]
        return context.parallelize(range(len(all_tasks)), len(all_tasks)).map(partial(run_pickled, pickled)).collect()

    results = run_job(
        context, run, f"{description}: {len(all_tasks)} tasks", on_progress=lambda done, _: on_progress(done)
    )
    on_progress(len(all_tasks))
    return results
