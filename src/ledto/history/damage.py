"""Finds damaged files of a history: all of them, or those that others are about to read who check nothing themselves."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from ledto.history import layout
from ledto.history.errors import DamagedHistory
from ledto.history.manifest import read_manifest
from ledto.history.sealed import SealedFile, damaged, missing, read_sealed_table
from ledto.history.store import Store

CHECKERS = 4
"""Files that are checked at once: reading and summing up are done outside Python."""


@dataclass(frozen=True, slots=True)
class FilesChecked:
    """What came of looking at every file of a history."""

    files: int
    bytes: int
    damaged: tuple[str, ...]
    """A sentence for each file that is damaged or missing, with its place."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return asdict(self)


def check_files(store: Store) -> FilesChecked:
    """Read all files of the history at a store, and compare them with their checksums.

    Raises as `read_manifest` does: without a manifest, nobody knows which files there should be.
    """
    manifest = read_manifest(store)
    folder = layout.run_folder(manifest.run)
    names = manifest.files()
    try:
        segments = read_sealed_table(store, f"{folder}/{manifest.tables.segments}", layout.SEGMENT_FILES)
        names |= {name for column in segments.columns for name in column.to_pylist() if name}
    except (DamagedHistory, OSError, pa.ArrowException):
        pass  # The table is checked with the others. Files that it alone names cannot be known.
    with ThreadPoolExecutor(CHECKERS) as pool:
        found = list(pool.map(lambda name: _check(store, f"{folder}/{name}"), sorted(names)))
    if read_manifest(store).version != manifest.version:
        return check_files(store)
    return FilesChecked(
        len(names) + 1,
        sum(each for each in found if isinstance(each, int)),
        tuple(each for each in found if isinstance(each, str)),
    )


def _check(store: Store, path: str) -> int | str:
    """The length of a file that is as it was written, or what is wrong."""
    try:
        file = SealedFile(store, path)
    except FileNotFoundError:
        return str(missing(store.place(path)))
    except DamagedHistory as fault:
        return str(fault)
    except (OSError, pa.ArrowException) as fault:
        return str(damaged(store.place(path), f"it cannot be read ({fault})"))
    try:
        file.verify()
        return file.size()
    except DamagedHistory as fault:
        return str(fault)
    finally:
        file.close()


def require_intact(store: Store, paths: Iterable[str]) -> None:
    """Raise `DamagedHistory` if any of these files is not as it was written."""
    with ThreadPoolExecutor(CHECKERS) as pool:
        for found in pool.map(lambda path: _check(store, path), paths):
            if isinstance(found, str):
                raise DamagedHistory(found)
