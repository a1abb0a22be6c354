"""Folders of our own: private, and found where neither the package nor the home can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import pytest

from ledto import folders
from tests.history.computations import draw, observe_cut, reports


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither the package nor the home nor what the user named can be written; gives the folder of temporary files."""
    (tmp_path / "file").write_text("")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(folders, "PACKAGE", tmp_path / "file" / "ledto")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "numba"))
    return tmp_path / "temporary"


def test_compiled_code_is_kept_in_a_folder_of_this_user_alone(nowhere: Path) -> None:
    """Every command would end in a trace-back where the home is read-only; each run would compile for a minute again."""
    before = os.umask(0)
    try:
        assert folders.keep_compiled_code()
    finally:
        os.umask(before)
    kept = Path(os.environ["NUMBA_CACHE_DIR"])
    assert kept.parent == nowhere
    assert kept.stat().st_mode & 0o777 == 0o700
    os.environ["NUMBA_CACHE_DIR"] = str(nowhere.parent / "file" / "numba")
    assert folders.keep_compiled_code()
    assert Path(os.environ["NUMBA_CACHE_DIR"]) == kept, "the next run finds it"


@pytest.mark.parametrize("taken", ["open to others", "a link", "a file"])
def test_what_another_user_may_have_put_there_is_not_run(nowhere: Path, taken: str) -> None:
    """Temporary files are everybody's: who takes the name first would have his code run by others."""
    name = nowhere / f"ledto-compiled-{os.getuid()}"
    if taken == "a file":
        name.write_text("")
    elif taken == "a link":
        (nowhere / "elsewhere").mkdir(mode=0o700)
        name.symlink_to(nowhere / "elsewhere")
    else:
        name.mkdir()
        name.chmod(0o777)
    assert folders.keep_compiled_code()
    kept = Path(os.environ["NUMBA_CACHE_DIR"])
    assert kept != name
    assert kept.stat().st_mode & 0o777 == 0o700
    assert not kept.is_symlink()


def test_where_nothing_can_be_written_that_is_said(nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """One sentence that names the variable to set, instead of the compiler's trace-back."""
    from ledto.cli import app

    monkeypatch.setattr(tempfile, "tempdir", str(nowhere.parent / "file"))
    with pytest.raises(SystemExit) as ended:
        app()
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"{folders.NO_PLACE}\n"


def test_a_place_that_can_be_written_is_left_to_the_compiler(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled before, or with the package, must not be compiled again."""
    monkeypatch.setattr(folders, "PACKAGE", nowhere)
    before = os.environ["NUMBA_CACHE_DIR"]
    assert folders.keep_compiled_code()
    assert os.environ["NUMBA_CACHE_DIR"] == before
    assert not [*nowhere.iterdir()]


READ_ONLY = """
set -e
for folder in "$PACKAGE" "$HERE"; do mount --bind "$folder" "$folder" && mount -o remount,bind,ro "$folder"; done
cd "$HERE"
exec "$@"
"""


def read_only(arguments: list[str], here: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run with the package, the home and the current folder truly read-only, as in a hardened container."""
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh", *arguments]
    given = {
        "PATH": os.environ["PATH"],
        "HOME": str(here),
        "HERE": str(here),
        "PACKAGE": str(folders.PACKAGE),
    }
    return subprocess.run(command, env=given | environment, capture_output=True, text=True, check=False)


def test_questions_are_answered_on_a_read_only_file_system(tmp_path: Path) -> None:
    """A history that is looked at in a hardened container would answer with trace-backs."""
    if shutil.which("unshare") is None or read_only(["true"], tmp_path).returncode:
        pytest.skip("this system lets nobody make mounts of his own")
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    drawn = draw(Random(1), processes=3, events=20, skew=5, loss=0)
    observe_cut(here / "h", reports(drawn, Random(2), numbered=True, copies=0), [], 100)
    ledto = [sys.executable, "-B", "-m", "ledto.cli"]
    refused = read_only(["touch", str(folders.PACKAGE / "written")], here)
    assert refused.returncode
    sql = [*ledto, "sql", "h", "--json", "SELECT count(*) AS events FROM events"]
    answered = read_only(sql, here, TMPDIR=str(temporary))
    assert (answered.returncode, answered.stderr) == (0, "")
    assert '"events": 20' in answered.stdout
    assert [path.name.rpartition("-")[0] for path in temporary.iterdir()] == ["ledto-compiled"]
