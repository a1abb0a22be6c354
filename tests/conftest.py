"""What every test may use: one Spark session for the whole run, and Hypothesis with the same examples each time.

Nothing is synced to disk in the tests' own process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("few", derandomize=True, deadline=None, max_examples=15)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile("ci")

# Only a loss of power shows what was not synced, and waiting for the disk takes a third of some tests' time.
# tests/history/test_store.py says what is synced, and when.
os.fsync = lambda descriptor: None
# A history of whoever runs the tests is not the one that tests ask.
os.environ.pop("LEDTO_HISTORY", None)
# Commands that tests run leave no process behind that makes an archive of Java's classes.
os.environ.setdefault("LEDTO_JAVA_ARCHIVE", "use")

# The first compiler only, and the plain collector: a shorter start, for jobs too small to need more.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Send every test of the shared session to one worker, so that a parallel run starts Spark once."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The shared session. What its workers run must be nested in the test: they cannot import test modules."""
    from ledto.spark.session.session import spark_session

    session = spark_session("tests", master="local[2]", config={"spark.driver.extraJavaOptions": QUICK_START})
    yield session
    session.stop()


@pytest.fixture(
    params=["inline", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.xdist_group("spark")])],
)
def session(request: pytest.FixtureRequest) -> SparkSession | None:
    """Where `tests.spark.running.observe` makes a history: in this process and, among the slow tests, on Spark.

    Both leave the same bytes, which tests/spark/test_engines.py shows on every run.
    """
    return None if request.param == "inline" else request.getfixturevalue("spark")
