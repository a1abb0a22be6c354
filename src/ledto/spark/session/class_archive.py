"""The archive of Java's classes: Spark starts in about two thirds of the time with it.

Java reads and checks some ten thousand classes of Spark at each start. An archive (Java calls it class-data sharing) has
them as they are in memory. It is made once, in the background after a first command (`ledto.spark.session.make_archive`),
and kept in the user's cache, named by what it was made from: the build of Java, the version of Spark and its jars.

Java ends with a crash when an archive is shorter than it was. So an archive counts only with its *seal*, a small file
that has the archive's size and checksum; anything else is left alone and made anew. A run never needs the archive.

The environment variable ``LEDTO_JAVA_ARCHIVE`` is ``make`` (the default), ``use`` (an archive that is there is used, and
none is made) or ``off``. docs/decisions/0022-the-first-answer.md has the measurements.
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
"""An archive of another Java or Spark that was not used for so long is removed when one is made."""

_PREFIX, _SUFFIX, _SEAL = "classes-", ".jsa", ".json"


class UnknownMode(LedtoError):
    """The environment variable has a value that means nothing."""


def archive_mode(environ: Mapping[str, str] = os.environ) -> str:
    """Read the environment variable; raises `UnknownMode`."""
    mode = environ.get(VARIABLE) or MODES[0]
    if mode not in MODES:
        raise UnknownMode(f"{VARIABLE} is one of {', '.join(MODES)}, not {mode!r:.40}")
    return mode


@dataclass(frozen=True, slots=True)
class Archive:
    """The place of the archive of one Java and one Spark; there may be nothing."""

    path: Path

    @property
    def seal(self) -> Path:
        return self.path.with_suffix(_SEAL)

    def is_usable(self) -> bool:
        """Tell whether the archive is there, as it was when it was made."""
        return self._sealed() == _size_and_sum(self.path) is not None

    def was_refused(self) -> bool:
        """Tell whether this Java could not make an archive: trying again would not help."""
        return "refused" in self._read_seal()

    def java_options(self) -> list[str]:
        """Give what makes Java use the archive; nothing where there is none that can be used."""
        if not self.is_usable():
            return []
        with suppress(OSError):
            os.utime(self.seal)  # It was used today.
        # Of an archive that does not fit after all, Java would tell on standard output, and go on without it.
        return [f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto", "-Xlog:cds*=off"]

    def put(self, made: Path) -> None:
        """Take a new archive, from the same folder; readers see the old one, none, or the new one."""
        os.replace(made, self.path)
        self._write_seal({"size_and_sum": _size_and_sum(self.path)})

    def refuse(self, reason: str) -> None:
        """Remember that no archive can be made."""
        self._write_seal({"refused": reason})

    def remove_unused(self) -> None:
        """Remove archives of other Javas and Sparks that nobody has used for long, and what a killed process left."""
        for path in self.path.parent.glob(f"{_PREFIX}*"):
            if path.stem.partition(".")[0] != self.path.stem:
                used = _modified(path.parent / f"{path.stem.partition('.')[0]}{_SEAL}") or _modified(path)
                if used is not None and time.time() - used > UNUSED_DAYS * 86_400:
                    _remove(path)

    def _sealed(self) -> list[int] | None:
        found = self._read_seal().get("size_and_sum")
        return found if isinstance(found, list) else None

    def _read_seal(self) -> dict[str, Any]:
        try:
            found = json.loads(self.seal.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write_seal(self, content: dict[str, Any]) -> None:
        aside = self.path.with_name(f"{self.path.stem}.{os.getpid()}{_SEAL}")
        aside.write_text(json.dumps(content))
        os.replace(aside, self.seal)


def _size_and_sum(path: Path) -> list[int] | None:
    # All of it, in 20 ms: Java dies of a page that is damaged.
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
    """Find the place of the archive for this Java and the Spark that is installed; None where nothing can be kept."""
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
    # A colon would end the path in Java's option, and a blank the option.
    return None if set(str(folder)) & set(": \"'\\") else Archive(folder / name)


def spark_jars() -> Path | None:
    """Find the jars that pyspark brings; None where it runs another Spark, which may change without our notice."""
    found = find_spec("pyspark")
    if found is None or found.origin is None or "SPARK_HOME" in os.environ:
        return None
    return Path(found.origin).parent / "jars"


def _key(java: JavaHome, jars: Path) -> str:
    """Name what an archive is made from. Java looks at the same things, and refuses an archive of others."""
    digest = hashlib.sha256(f"{java.path}\n{java.build}\n{jars}\n".encode())
    for jar in sorted(os.scandir(jars), key=lambda entry: entry.name):
        found = jar.stat()
        digest.update(f"{jar.name}\t{found.st_size}\t{int(found.st_mtime)}\n".encode())
    return digest.hexdigest()[:16]


def make_in_background(archive: Archive) -> None:
    """Start a process that makes the archive, where there is none that can be used; it goes on when this one has ended.

    It holds none of our files, so nobody waits for it, and runs only when nothing else wants the processor.
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
