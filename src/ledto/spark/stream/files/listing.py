"""What a folder or pattern holds, and how each new file is to be read: its format, and the pieces it is cut into."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.fs

from ledto.sources import SOURCES, FileSlice, SourceError
from ledto.sources.files import InputFile, find_files
from ledto.sources.inputs import PARQUET
from ledto.sources.lines import count_line_ends
from ledto.sources.native.lines import CELL_BYTES
from ledto.sources.parquet import PARQUET_SUFFIXES
from ledto.sources.registry import HEAD_BYTES, known_format, recognise
from ledto.spark.stream.contract import StreamSourceError
from ledto.spark.stream.files.journal import JournalEntry

SPLIT_BYTES: Final = CELL_BYTES
"""How much of a large file one row stands for."""

_TEMPORARY: Final = (".tmp", ".part", "~")
_OPENED_AT_ONCE: Final = 16
_PATTERN: Final = frozenset("*?[")


class NewFile(NamedTuple):
    """A file that was not taken yet."""

    file: InputFile
    modified_ns: int


def listed(place: str, format: str | None) -> list[InputFile]:
    """The files that are there now, by `ledto.sources.files.find_files`, none with a temporary name.

    Raises `StreamSourceError` if the folder, or the one that a pattern begins with, cannot be listed.
    """
    names = [format] if format is not None else list(SOURCES)
    suffixes = {suffix for name in names for suffix in known_format(name).suffixes}
    if format in (None, "ledto"):
        suffixes |= {*PARQUET_SUFFIXES}
    try:
        files = find_files([place], sorted(suffixes))
    except SourceError as fault:
        if not _is_there(place):
            raise StreamSourceError(
                f"{place} cannot be followed: its folder does not exist or cannot be listed; make it"
            ) from fault
        return []
    return [file for file in files if not file.location.lower().endswith(_TEMPORARY)]


def new_files(files: Sequence[InputFile], taken: Container[str], most: int) -> list[NewFile]:
    """At most so many of the files that were not taken, oldest first, and of one age by name.

    One that is gone again by now is passed over.
    """
    unseen = [file for file in files if file.location not in taken]
    states = [(file, state(file.location)) for file in unseen]
    found = [NewFile(InputFile(file.name, file.location, now[0]), now[1]) for file, now in states if now is not None]
    return sorted(found, key=lambda new: (new.modified_ns, new.file.location))[:most]


def cut(files: Sequence[NewFile], format: str | None, *, number: int, arrival_ns: int) -> list[JournalEntry]:
    """The files in pieces, with numbers from `number` on; a file that cannot be opened is a `SourceError`.

    Looks into each file: its first bytes say the format where none is given, and lines are counted where it is cut.
    """
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
        formats = list(pool.map(lambda new: _format_of(new.file, format), files))
    pieces: list[JournalEntry] = []
    for (file, modified_ns), found in zip(files, formats, strict=True):
        arrival_ns = max(arrival_ns, modified_ns)
        for start, stop, lines in _pieces(file, found):
            pieces.append(
                JournalEntry(
                    number=number + len(pieces),
                    name=file.name,
                    location=file.location,
                    size_bytes=file.size_bytes,
                    modified_ns=modified_ns,
                    arrival_ns=arrival_ns,
                    format=found,
                    start=start,
                    stop=stop,
                    lines_before=lines,
                )
            )
    return pieces


def _format_of(file: InputFile, format: str | None) -> str | None:
    head = file.head(HEAD_BYTES if format is None else len(b"PAR1"))
    if head[:4] == b"PAR1" or (format in (None, "ledto") and file.suffix in PARQUET_SUFFIXES):
        return PARQUET
    if format is not None:
        return format
    found = recognise(head, file.suffix)
    if found is None and file.suffix in known_format("ledto").suffixes and head.lstrip()[:1] not in (b"{", b"["):
        # Not even JSON: its lines are set aside one by one, with what is wrong with each.
        return "ledto"
    return found


def _pieces(file: InputFile, format: str | None) -> Iterator[tuple[int, int | None, int]]:
    """Start, stop and the number of line ends before each."""
    splittable = format in SOURCES and SOURCES[format].splittable
    if not splittable or file.compression is not None or file.size_bytes <= SPLIT_BYTES:
        yield 0, None, 0
        return
    lines = 0
    for start in range(0, file.size_bytes, SPLIT_BYTES):
        stop = start + SPLIT_BYTES
        yield start, stop, lines
        if stop < file.size_bytes:
            lines += count_line_ends(file.piece(start=start, stop=stop))


def described(piece: JournalEntry) -> bytes:
    """What a row's payload says of its piece."""
    content: dict[str, Any] = {
        "name": piece.name,
        "location": piece.location,
        "size_bytes": piece.size_bytes,
        "modified_ns": piece.modified_ns,
        "start": piece.start,
        "stop": piece.stop,
        "lines_before": piece.lines_before,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def opened_piece(payload: bytes) -> FileSlice:
    """The piece of a file that a row of a directory stands for, ready for a source of the row's `format`.

    Raises `StreamSourceError` when the file is gone, or has changed since it was seen: reading what is there now would
    give other rows than the first time.
    """
    said = json.loads(payload)
    name, location = said["name"], said["location"]
    now = state(location)
    then = (said["size_bytes"], said["modified_ns"])
    if now is None:
        raise StreamSourceError(
            f"{name} is gone, and was seen with {then[0]} bytes but not read yet; put it back, and leave files in the "
            "folder until they are in the history"
        )
    if now != then:
        raise StreamSourceError(
            f"{name} has changed since it was seen ({then[0]} bytes then, {now[0]} now); put it back as it was, and "
            "let files appear whole: written under a name that begins with '.', then renamed"
        )
    file = InputFile(name, location, said["size_bytes"])
    return file.piece(start=said["start"], stop=said["stop"], lines_before=said["lines_before"])


def state(location: str) -> tuple[int, int] | None:
    """Size in bytes and modification time in ns of a file, if it is there."""
    system, path = _system(location)
    info = system.get_file_info(path)
    return (info.size, info.mtime_ns or 0) if info.type == pyarrow.fs.FileType.File else None


def _is_there(place: str) -> bool:
    """Whether the folder that is followed, or that the pattern begins with, can be listed."""
    scheme, separator, path = place.rpartition("://")
    parts = PurePosixPath(path).parts
    fixed = next((parts[:n] for n, part in enumerate(parts) if _PATTERN & {*part}), parts)
    try:
        system, folder = _system(scheme + separator + str(PurePosixPath(*fixed)))
        system.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True))
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def _system(location: str) -> tuple[pyarrow.fs.FileSystem, str]:
    if "://" in location:
        system, path = pyarrow.fs.FileSystem.from_uri(location)
        return system, path
    return pyarrow.fs.LocalFileSystem(), str(Path(location).absolute())
