"""What the names of files say: how they are compressed, what log they were part of, and which part came first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

COMPRESSED: Final[dict[str, str]] = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""Suffixes of compressed files, with pyarrow's names of the compressions. Such a file is read in one piece."""

_ROTATED = re.compile(r"(?:\.(?P<age>\d{1,4})|[.-](?P<date>\d{4}-?\d\d-?\d\d(?:[-_.T]?\d\d(?:[-:]?\d\d){0,2})?))\Z")
"""What is added to the name of a log that is put aside: ``.1``, ``-20240501``, ``.20240501-115959``, ``.2024-05-01``."""
_NO_DIGIT = re.compile(r"\D")


def name_before_rotation(path: str) -> str:
    """Return a file's name as it was written: without folders, and without suffixes of compressions and of a rotation.

    The name of ``logs/app.log.2.gz`` is ``app.log``.
    """
    name = without_compression(PurePosixPath(path).name)
    return _ROTATED.sub("", name) or name


def without_compression(path: str) -> str:
    """Return a path without suffixes of compressions."""
    while (suffix := PurePosixPath(path).suffix).lower() in COMPRESSED:
        path = path.removesuffix(suffix)
    return path


def rank_files(paths: Sequence[str | None]) -> list[int]:
    """Number paths in their order, from 0; those without a name come last.

    It is the order of their texts, but of the parts of one rotated log the oldest comes first, and the one that is still
    written last.
    """
    order = sorted(range(len(paths)), key=lambda number: _age(paths[number]))
    ranks = [0] * len(paths)
    for rank, number in enumerate(order):
        ranks[number] = rank
    return ranks


def _age(path: str | None) -> tuple[bool, str, bool, int, str, str]:
    """Make what sorts a path."""
    if path is None:
        return True, "", False, 0, "", ""
    bare = without_compression(path)
    rotated = _ROTATED.search(bare)
    if rotated is None:
        return False, bare, True, 0, "", path
    return (
        False,
        bare[: rotated.start()],
        False,
        -int(rotated["age"] or 0),
        _NO_DIGIT.sub("", rotated["date"] or ""),
        path,
    )
