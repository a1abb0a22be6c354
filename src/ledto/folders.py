"""Make and find private folders for files that can be made again. They need neither a home nor the package's folder.

Standard library only.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path


def temporary_folder(prefix: str, *, within: str | os.PathLike[str] | None = None) -> Path:
    """Make a folder of mode 0700; it is deleted when this process ends.

    The umask changes nothing. A process that is killed leaves its folder. Raises `OSError` where nothing can be written.
    """
    made = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=within)).absolute()
    atexit.register(_remove, made, os.getpid())
    return made


def _remove(folder: Path, made_by: int) -> None:
    if os.getpid() == made_by:  # What was forked off leaves it to the one that made it.
        shutil.rmtree(folder, ignore_errors=True)


def lasting_folder(name: str) -> Path:
    """Open this user's private folder below TMPDIR; the same one for every run.

    For what is costly to make again and no loss if it goes. Where somebody else has taken the name, make a temporary
    folder instead (`temporary_folder`). Raises `OSError` where nothing can be written.
    """
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir(), f"{name}-{user}").absolute()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return temporary_folder(name)
    # Compiled code is kept there: what another could have put there must not be run.
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    return folder if ours and can_write(folder) else temporary_folder(name)


def can_write(folder: Path) -> bool:
    """Tell whether files can be made in the folder. If it does not exist: whether it can be made."""
    folder = folder.absolute()
    while not os.path.exists(folder) and folder.parent != folder:
        folder = folder.parent
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def home_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Find the user's cache folder. For a user without a home, give a path below which nothing can be made."""
    try:
        return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return Path(os.devnull)
