"""Make the archive of Java's classes that lets Spark start sooner: ``python -m ledto.spark.session.make_archive``.

Observes a few lines on Spark and lets Java archive the classes that it has loaded by then: those of Spark's start,
which all sessions need, without those of SQL, which only large logs need and which double the archive and the time to
make it. It is made once for each Java and each Spark; the first command on Spark does it in the background.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ledto.clocks import LedtoError
from ledto.folders import temporary_folder
from ledto.spark.session.class_archive import VARIABLE, Archive, archive_for
from ledto.spark.session.java import JavaHome, JavaNotFound, find_java

SECONDS_TO_END: Final = 600
LOWEST_PRIORITY: Final = 19


class NotArchived(LedtoError):
    """This Java makes no archive, or none that it can use."""


def make_archive() -> Path:
    """Make the archive for the Java that is found, unless there is one; return its path.

    Raises `NotArchived` if there cannot be one, and `JavaNotFound`.
    """
    java = find_java()
    archive = archive_for(java)
    if archive is None:
        raise NotArchived("there is no folder to keep it in, or SPARK_HOME names a Spark of its own")
    archive.path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(archive):
        if not archive.is_usable():
            archive.remove_unused()
            _make(archive, java)
    return archive.path


@contextmanager
def _alone(archive: Archive) -> Iterator[None]:
    """Wait until no other process makes this archive."""
    with archive.path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(archive: Archive, java: JavaHome) -> None:
    """Make the archive in a temporary folder, check it, and put it into place; remember if this Java cannot."""
    with tempfile.TemporaryDirectory(prefix=f"{archive.path.stem}.", dir=archive.path.parent) as temporary:
        made = Path(temporary, "made.jsa")
        try:
            class_path = _observe_and_archive(made)
            _check(made, java, class_path)
        except NotArchived as failure:
            archive.refuse(str(failure))
            raise
        archive.put(made)


def _observe_and_archive(made: Path) -> str:
    """Observe a sample on Spark, and let Java archive what it has loaded when it ends; return its class path."""
    from pyspark import SparkContext

    from ledto.batch.observe import observe
    from ledto.sources.inputs import find_inputs
    from ledto.spark.engine import SparkEngine
    from ledto.spark.session.session import spark_context

    os.environ[VARIABLE] = "off"
    folder = temporary_folder("ledto-archiving")
    log = folder / "log.jsonl"
    log.write_text("".join(f"{json.dumps(record)}\n" for record in _sample()))
    # Errors only: Java warns of each class that it cannot archive.
    options = f"-XX:ArchiveClassesAtExit={made} -Xlog:disable -Xlog:all=error:stderr"
    context = spark_context("ledto-archive", brief=True, config={"spark.driver.extraJavaOptions": options})
    observe(SparkEngine(context), find_inputs([str(log)]), folder / "history")
    java = SparkContext._gateway
    assert java is not None
    class_path = str(java.jvm.java.lang.System.getProperty("java.class.path"))
    context.stop()
    java.proc.stdin.close()  # This ends Java, which then archives.
    try:
        java.proc.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        java.proc.kill()
        raise NotArchived(f"Java did not end within {SECONDS_TO_END} s") from None
    return class_path


def _sample() -> Iterator[dict[str, str | int]]:
    """Yield the lines of a small log."""
    for number in range(20):
        sender, receiver = ("a", "b") if number % 2 else ("b", "a")
        message = {"message": f"m{number}", "name": "sample"}
        yield {"process": sender, "time": 20 * number, "kind": "send", **message}
        yield {"process": receiver, "time": 20 * number + 10, "kind": "receive", **message}


def _check(made: Path, java: JavaHome, class_path: str) -> None:
    """Start Java with the archive in a mode that fails if it is unusable. Raises `NotArchived`."""
    if not made.exists():
        raise NotArchived(f"Java {java.build} in {java.path} makes no archive")
    options = [f"-XX:SharedArchiveFile={made}", "-Xshare:on", "-cp", class_path, "-version"]
    command = [str(java.path / "bin" / "java"), *options]
    trial = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if trial.returncode:
        raise NotArchived(f"Java {java.build} cannot use the archive it made: {trial.stderr.strip()[-200:]}")


def main() -> int:
    """Make the archive and print its path. Return 0 also if none can be made, because nothing needs it."""
    parser = argparse.ArgumentParser(
        prog="python -m ledto.spark.session.make_archive", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--quietly", action="store_true", help="say nothing, and leave the processor to all others")
    if parser.parse_args().quietly:
        os.nice(LOWEST_PRIORITY)
    try:
        message = f"Java's classes for Spark are in {make_archive()}"
    except (NotArchived, JavaNotFound, OSError) as failure:
        message = f"Spark starts without an archive of its classes: {failure}"
    sys.stdout.write(f"{message}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
