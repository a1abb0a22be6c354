"""Keep an archive of Java's classes: with it, Spark starts in about two thirds of the time.

Java reads and checks some ten thousand classes of Spark at each start. An archive (Java calls it class-data sharing)
has them as they are in memory. It is made once, in the background after a first command
(`ledto.spark.session.make_archive`), and kept in the user's cache, named after what it was made from: the build of
Java, the version of Spark and its jars.

Java crashes if an archive is shorter than it was. So an archive counts only with its *seal*, a small file with the
archive's size and checksum; anything else is ignored and made anew. No run depends on the archive.

The environment variable ``LEDTO_JAVA_ARCHIVE`` is ``make`` (the default), ``use`` (use an archive but make none) or
``off``. docs/decisions/0022-the-first-answer.md has the measurements.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from ledto.clocks import LedtoError
from ledto.folders import can_write, home_cache, lasting_folder
from ledto.spark.session.java import JavaHome

VARIABLE: Final = "LEDTO_JAVA_ARCHIVE"
MODES: Final = ("make", "use", "off")
UNUSED_DAYS: Final = 30
"""When an archive is made, those of another Java or Spark are removed if unused for this many days."""

_PREFIX, _SUFFIX, _SEAL = "classes-", ".jsa", ".json"


class UnknownMode(LedtoError):
    """The environment variable has an unknown value."""


def archive_mode(environ: Mapping[str, str] = os.environ) -> str:
    """Read the environment variable; raises `UnknownMode`."""
    mode = environ.get(VARIABLE) or MODES[0]
    if mode not in MODES:
        raise UnknownMode(f"{VARIABLE} is one of {', '.join(MODES)}, not {mode!r:.40}")
    return mode


@dataclass(frozen=True, slots=True)
class Archive:
    """The place of the archive of one Java and one Spark, which may not exist."""

    path: Path

    @property
    def seal(self) -> Path:
        return self.path.with_suffix(_SEAL)

    def is_usable(self) -> bool:
        """Tell whether the archive exists, unchanged since it was made."""
        return self._sealed() == _size_and_sum(self.path) is not None

    def was_refused(self) -> bool:
        """Tell whether this Java could not make an archive, so that trying again is useless."""
        return "refused" in self._read_seal()

    def java_options(self) -> list[str]:
        """List the options that make Java use the archive; none if it is not usable."""
        if not self.is_usable():
            return []
        with suppress(OSError):
            os.utime(self.seal)  # Note that it was used today.
        # If the archive does not fit after all, Java goes on without it, and would say so on standard output.
        return [f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto", "-Xlog:cds*=off"]

    def put(self, made: Path) -> None:
        """Move a new archive, from the same folder, into place. Readers see the old one, none, or the new one."""
        os.replace(made, self.path)
        self._write_seal({"size_and_sum": _size_and_sum(self.path)})

    def refuse(self, reason: str) -> None:
        """Remember that no archive can be made."""
        self._write_seal({"refused": reason})

    def remove_unused(self) -> None:
        """Remove archives of other Javas and Sparks that nobody used for long, and remains of killed processes."""
        for path in self.path.parent.glob(f"{_PREFIX}*"):
            if path.stem.partition(".")[0] != self.path.stem:
                used = _modified(path.parent / f"{path.stem.partition('.')[0]}{_SEAL}") or _modified(path)
                if used is not None and time.time() - used > UNUSED_DAYS * 86_400:
                    _remove(path)

    def _sealed(self) -> list[int] | None:
        sealed = self._read_seal().get("size_and_sum")
        return sealed if isinstance(sealed, list) else None

    def _read_seal(self) -> dict[str, Any]:
        try:
            content = json.loads(self.seal.read_bytes())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write_seal(self, content: dict[str, Any]) -> None:
        temporary = self.path.with_name(f"{self.path.stem}.{os.getpid()}{_SEAL}")
        temporary.write_text(json.dumps(content))
        os.replace(temporary, self.seal)


def _size_and_sum(path: Path) -> list[int] | None:
    # The sum covers the whole file and takes 20 ms: a single damaged page makes Java crash.
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return [len(content), crc32(content)]
    except (OSError, ValueError):
        return None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def archive_for(java: JavaHome, *, environ: Mapping[str, str] = os.environ) -> Archive | None:
    """Find the place of the archive for this Java and the installed Spark; None if nothing can be kept."""
    jars = spark_jars()
    if jars is None:
        return None
    folder = home_cache(environ) / "ledto"
    name = f"{_PREFIX}{_key(java, jars)}{_SUFFIX}"
    try:
        if not (folder / name).exists() and not can_write(folder):
            folder = lasting_folder("ledto-java")
    except OSError:
        return None
    # A colon would end the path in Java's option, and a blank would end the option.
    return None if set(str(folder)) & set(": \"'\\") else Archive(folder / name)


def spark_jars() -> Path | None:
    """Find the jars that pyspark brings; None if it runs another Spark, which may change unnoticed."""
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None or "SPARK_HOME" in os.environ:
        return None
    return Path(pyspark.origin).parent / "jars"


def _key(java: JavaHome, jars: Path) -> str:
    """Hash what an archive is made from. Java checks the same things and refuses an archive made from others."""
    digest = hashlib.sha256(f"{java.path}\n{java.build}\n{jars}\n".encode())
    for jar in sorted(os.scandir(jars), key=lambda entry: entry.name):
        status = jar.stat()
        digest.update(f"{jar.name}\t{status.st_size}\t{int(status.st_mtime)}\n".encode())
    return digest.hexdigest()[:16]


def make_in_background(archive: Archive) -> None:
    """Start a process that makes the archive, unless there is a usable one; it outlives this process.

    It holds none of our files, so nobody waits for it, and it runs only when nothing else wants the processor.
    """
    if archive_mode() != "make" or archive.is_usable() or archive.was_refused():
        return
    with suppress(OSError):  # The next command tries again.
        subprocess.Popen(
            [sys.executable, "-m", "ledto.spark.session.make_archive", "--quietly"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
