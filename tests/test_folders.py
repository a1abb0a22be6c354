"""Folders of our own: private, and found where neither the package nor the home can be written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from ledto.folders import home_cache, lasting_folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_lasting_folder_is_of_this_user_alone_and_found_again(temporary: Path) -> None:
    """Others could put code there that is run, or each run would compile again."""
    before = os.umask(0)
    try:
        folder = lasting_folder("ledto-compiled")
    finally:
        os.umask(before)
    assert folder == temporary / f"ledto-compiled-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert lasting_folder("ledto-compiled") == folder


@pytest.mark.parametrize("taken", ["open to others", "a link", "a file"])
def test_what_another_user_may_have_put_there_is_not_run(temporary: Path, taken: str) -> None:
    """Temporary files are everybody's: who takes the name first would have his code run by others."""
    name = temporary / f"ledto-compiled-{os.getuid()}"
    if taken == "a file":
        name.write_text("")
    elif taken == "a link":
        (temporary / "elsewhere").mkdir(mode=0o700)
        name.symlink_to(temporary / "elsewhere")
    else:
        name.mkdir()
        name.chmod(0o777)
    folder = lasting_folder("ledto-compiled")
    assert folder != name
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.is_symlink()


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number without a name has no home, and looking for one ended in a trace-back."""
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(NotADirectoryError):
        (home_cache({}) / "ledto").mkdir()
