"""Find damaged files of a history: among all its files, or among those that an unchecked reader is about to use."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from ledto.history import layout
from ledto.history.errors import DamagedHistory
from ledto.history.manifest import read_manifest
from ledto.history.sealed import SealedFile, missing, read_sealed_table, unreadable
from ledto.history.store import Store

CHECKERS = 4
"""Threads that check files. Reading and checksums run without Python's lock."""


@dataclass(frozen=True, slots=True)
class FilesChecked:
    """The result of checking every file of a history."""

    files: int
    """Files checked, the manifest included."""
    bytes: int
    """The size of the intact ones, without the manifest."""
    damaged: tuple[str, ...]
    """A sentence for each file that is damaged or missing, with its path."""

    def to_json(self) -> dict[str, Any]:
        """Give the fields as `json.dumps` takes them."""
        return asdict(self)


def check_files(store: Store) -> FilesChecked:
    """Read all files of a history and compare them with their checksums. Starts again if the history is replaced meanwhile.

    Raises as `read_manifest` does: without a manifest, nobody knows which files there should be.
    """
    manifest = read_manifest(store)
    folder = layout.run_folder(manifest.run)
    names = manifest.files()
    try:
        segments = read_sealed_table(store, f"{folder}/{manifest.tables.segments}", layout.SEGMENT_FILES)
        names |= {name for column in segments.columns for name in column.to_pylist() if name}
    except (DamagedHistory, OSError, pa.ArrowException):
        pass  # The table is checked with the others. Files that only it names cannot be found.
    with ThreadPoolExecutor(CHECKERS) as pool:
        results = list(pool.map(lambda name: _check(store, f"{folder}/{name}"), sorted(names)))
    if read_manifest(store).version != manifest.version:
        return check_files(store)
    return FilesChecked(
        len(names) + 1,
        sum(result for result in results if isinstance(result, int)),
        tuple(result for result in results if isinstance(result, str)),
    )


def _check(store: Store, path: str) -> int | str:
    """Check one file; give its length, or a sentence that says what is wrong."""
    try:
        file = SealedFile(store, path)
    except FileNotFoundError:
        return str(missing(store.place(path)))
    except DamagedHistory as fault:
        return str(fault)
    except (OSError, pa.ArrowException) as fault:
        return str(unreadable(store.place(path), fault))
    try:
        file.verify()
        return file.size()
    except DamagedHistory as fault:
        return str(fault)
    finally:
        file.close()


def require_intact(store: Store, paths: Iterable[str]) -> None:
    """Check these files. Raises `DamagedHistory` for the first that is missing or differs from what was written."""
    with ThreadPoolExecutor(CHECKERS) as pool:
        for result in pool.map(lambda path: _check(store, path), paths):
            if isinstance(result, str):
                raise DamagedHistory(result)
