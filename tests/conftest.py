"""What every test may use: one Spark session for the whole run, and Hypothesis with the same examples each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("few", derandomize=True, deadline=None, max_examples=15)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile("ci")

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
    from whence.spark.session import spark_session

    session = spark_session("tests", master="local[2]", config={"spark.driver.extraJavaOptions": QUICK_START})
    yield session
    session.stop()
