"""The archive of Java's classes: found by what it was made from, never trusted further, and never needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ledto.batch.observe import observe
from ledto.cli.main import cli
from ledto.sources.inputs import find_inputs
from ledto.spark import sweep
from ledto.spark.engine import BRIEF_BYTES, SparkEngine
from ledto.spark.session import class_archive as archives
from ledto.spark.session.class_archive import Archive, UnknownMode, archive_for, archive_mode, make_in_background
from ledto.spark.session.java import JavaHome, find_java
from ledto.spark.session.session import BRIEF, _prepare

FOUR_LINES = [
    {"process": "a", "time": 1, "kind": "send", "message": "m"},
    {"process": "b", "time": 2, "kind": "receive", "message": "m"},
    {"process": "b", "time": 3, "kind": "send", "message": "n"},
    {"process": "a", "time": 4, "kind": "receive", "message": "n"},
]


def write_lines(path: Path) -> Path:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in FOUR_LINES))
    return path


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for Spark's jars."""
    folder = tmp_path / "jars"
    folder.mkdir()
    for name in ("spark-core.jar", "scala.jar"):
        (folder / name).write_bytes(b"jar")
        os.utime(folder / name, (1_000, 1_000))
    monkeypatch.setattr(archives, "spark_jars", lambda: folder)
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An archive that was made and put in its place."""
    made = tmp_path / "made"
    made.write_bytes(b"archive" * 1_000)
    placed = Archive(tmp_path / "classes-0.jsa")
    placed.put(made)
    return placed


def test_an_archive_is_named_by_java_and_jars(tmp_path: Path, jars: Path) -> None:
    """After an upgrade of Java or Spark, the old archive would be found and no new one made: slow for ever."""
    java = JavaHome(tmp_path / "java", 17, "PATH", "17.0.15 17.0.15+6")
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    def place(home: JavaHome = java) -> Path:
        found = archive_for(home, environ=environ)
        assert found is not None
        return found.path

    first = place()
    assert first == place()
    assert first.parent == tmp_path / "cache" / "ledto"
    others = [
        place(JavaHome(tmp_path / "java", 17, "PATH", "17.0.16 17.0.16+8")),
        place(JavaHome(tmp_path / "another", 17, "PATH", "17.0.15 17.0.15+6")),
    ]
    for change in (
        lambda: os.utime(jars / "scala.jar", (2_000, 2_000)),
        lambda: (jars / "scala.jar").write_bytes(b"longer jar"),
        lambda: (jars / "new.jar").write_bytes(b"jar"),
        lambda: (jars / "new.jar").rename(jars / "renamed.jar"),
    ):
        change()
        others.append(place())
    assert len({first, *others}) == 1 + len(others)


def test_where_the_home_cannot_be_written_the_archive_is_among_the_temporary_files(
    tmp_path: Path, jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service without a home would never start quickly."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    java = JavaHome(tmp_path / "java", 17, "PATH", "17")
    found = archive_for(java, environ={"XDG_CACHE_HOME": os.devnull})
    assert found is not None
    assert found.path.parent.parent == tmp_path
    assert found.path.parent.stat().st_mode & 0o077 == 0


def _truncate(archive: Archive) -> None:
    os.truncate(archive.path, 100)


def _overwrite(archive: Archive) -> None:
    before = archive.path.stat()
    archive.path.write_bytes(b"ARCHIVE" * 1_000)
    os.utime(archive.path, (before.st_atime, before.st_mtime))


@pytest.mark.parametrize(
    "harm",
    [
        _truncate,
        _overwrite,
        lambda archive: archive.path.unlink(),
        lambda archive: archive.seal.unlink(),
        lambda archive: archive.seal.write_bytes(b"\xff"),
        lambda archive: archive.seal.write_text("[1]"),
        lambda archive: archive.refuse("it cannot"),
    ],
    ids=["cut", "overwritten", "gone", "no seal", "bad seal", "foreign seal", "refused"],
)
def test_an_archive_that_is_not_as_it_was_made_is_not_used(archive: Archive, harm: Callable[[Archive], None]) -> None:
    """Java 17 crashes on an archive that was cut: no run on this machine would start again."""
    assert any(str(archive.path) in option for option in archive.java_options())
    harm(archive)
    assert archive.java_options() == []


def test_two_that_make_an_archive_at_once_leave_one_that_fits_its_seal_or_none(tmp_path: Path) -> None:
    """With the seal of one and the archive of the other, Java would read what nobody checked."""
    one = Archive(tmp_path / "classes-0.jsa")
    for size in (100, 200):
        made = tmp_path / f"made-{size}"
        made.write_bytes(b"x" * size)
        one.put(made)
    assert one.is_usable()
    late = tmp_path / "late"
    late.write_bytes(b"x" * 100)
    late.replace(one.path)  # The other one was killed before it sealed.
    assert not one.is_usable()


def test_java_starts_in_silence_with_an_archive_that_it_cannot_read(archive: Archive) -> None:
    """What Java writes to standard output stands before the JSON that a program reads."""
    java = find_java().path / "bin" / "java"
    done = subprocess.run([java, *archive.java_options(), "-version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("mode", "state", "started"),
    [
        ("make", "none", True),
        ("make", "cut", True),
        ("make", "usable", False),
        ("make", "refused", False),
        ("use", "none", False),
        ("off", "none", False),
    ],
)
def test_an_archive_is_made_in_the_background_when_one_is_missing(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, mode: str, state: str, started: bool
) -> None:
    """Made again after each command, it would cost more than it saves; never made, nothing would be saved."""
    harms = {"none": archive.path.unlink, "cut": lambda: _truncate(archive)}
    harms |= {"usable": lambda: None, "refused": lambda: archive.refuse("no base archive")}
    harms[state]()
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: calls.append(command))
    monkeypatch.setenv("LEDTO_JAVA_ARCHIVE", mode)
    make_in_background(archive)
    assert bool(calls) == started


def test_a_mode_that_does_not_exist_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who means to turn it off and writes "false" should learn that it is still on."""
    with pytest.raises(UnknownMode, match="LEDTO_JAVA_ARCHIVE is one of make, use, off, not 'false'"):
        archive_mode({"LEDTO_JAVA_ARCHIVE": "false"})


@pytest.mark.parametrize(("extra_bytes", "brief"), [(0, True), (BRIEF_BYTES, False)], ids=["small", "large"])
def test_a_small_log_gets_a_java_that_starts_soon_and_a_large_one_a_java_that_runs_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra_bytes: int, brief: bool
) -> None:
    """The first compiler alone would make a log of gigabytes take much longer, and the second a short one."""
    log = write_lines(tmp_path / "log.jsonl")
    os.truncate(log, log.stat().st_size + extra_bytes)
    asked: list[bool] = []

    @contextmanager
    def not_started(*, brief: bool, **_: object) -> Iterator[None]:
        asked.append(brief)
        raise sweep.SparkNotStarted("not today")
        yield

    monkeypatch.setattr(sweep, "borrowed_context", not_started)
    done = CliRunner().invoke(cli, ["observe", str(log), "--to", str(tmp_path / "history")])
    assert (done.exit_code, asked) == (1, [brief])


@pytest.mark.parametrize("brief", [True, False])
def test_options_that_were_given_to_java_win_over_those_of_a_brief_session(brief: bool) -> None:
    """Java takes the last of two options; who asks for another collector must get it."""
    given = {"spark.driver.extraJavaOptions": "-XX:+UseZGC"}
    settings, _ = _prepare("test", "local[1]", given, brief=brief)
    options = str(settings["spark.driver.extraJavaOptions"]).split()
    assert set(BRIEF) <= set(options) if brief else set(BRIEF).isdisjoint(options)
    assert options[-1] == "-XX:+UseZGC"


def test_a_small_log_is_one_job_of_spark_and_needs_no_sql(spark: SparkSession, tmp_path: Path) -> None:
    """Each further job, and the start of SQL, would add seconds to a log of four lines."""
    engine = SparkEngine(spark.sparkContext)
    jobs = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs
    before = jobs()
    made = observe(engine, find_inputs([str(write_lines(tmp_path / "log.jsonl"))]), tmp_path / "history")
    assert made.ledger.delivered == 4
    assert jobs() - before == 1
    assert "session" not in vars(engine), "a session was made"


@pytest.mark.xdist_group("spark")
def test_an_archive_that_was_made_is_used_by_the_next_run(tmp_path: Path) -> None:
    """Java refuses an archive without a word when anything differs; then every run would be slow and nobody would know."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    make = [sys.executable, "-m", "ledto.spark.session.make_archive"]
    both = [subprocess.Popen(make, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate()[0] for one in both]
    kept = list((tmp_path / "cache" / "ledto").glob("classes-*.jsa"))
    assert said == [f"Java's classes for Spark are in {path}\n" for path in kept * 2]

    loaded = tmp_path / "loaded.txt"
    environ["SPARK_SUBMIT_OPTS"] = f"-Xlog:class+load:file={loaded}"
    log, history = write_lines(tmp_path / "log.jsonl"), tmp_path / "history"
    command = [sys.executable, "-m", "ledto.cli", "observe", str(log), "--to", str(history), "--json"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["ledger"]["delivered"] == 4
    lines = loaded.read_text().splitlines()
    assert any("org.apache.spark.SparkContext source: shared objects file" in line for line in lines)
    assert not any("catalyst.analysis.FunctionRegistry" in line for line in lines), "SQL was started"
