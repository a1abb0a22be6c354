"""List a followed folder or pattern, and find the format and the pieces of each new file."""

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
"""How many bytes of a large file one row names."""

_TEMPORARY: Final = (".tmp", ".part", "~")
_OPENED_AT_ONCE: Final = 16
_PATTERN: Final = frozenset("*?[")


class NewFile(NamedTuple):
    """A file that is not in the journal yet."""

    file: InputFile
    modified_ns: int


def list_files(place: str, format: str | None) -> list[InputFile]:
    """List the files of a place (`ledto.sources.files.find_files`), without those with temporary names.

    Raises `StreamSourceError` if the folder, or the one that a pattern begins with, cannot be listed.
    """
    names = [format] if format is not None else list(SOURCES)
    suffixes = {suffix for name in names for suffix in known_format(name).suffixes}
    if format in (None, "ledto"):
        suffixes |= {*PARQUET_SUFFIXES}
    try:
        files = find_files([place], sorted(suffixes), followed=True)
    except SourceError as fault:
        if not _is_there(place):
            raise StreamSourceError(
                f"{place} cannot be followed: its folder does not exist or cannot be listed; make it"
            ) from fault
        return []
    return [file for file in files if not file.location.lower().endswith(_TEMPORARY)]


def find_new_files(files: Sequence[InputFile], known: Container[str], most: int) -> list[NewFile]:
    """Find at most `most` files whose locations are not `known`, oldest first, and by name among those of one age.

    Skips files that are gone by now.
    """
    unseen = [file for file in files if file.location not in known]
    states = [(file, file_state(file.location)) for file in unseen]
    new = [NewFile(InputFile(file.name, file.location, now[0]), now[1]) for file, now in states if now is not None]
    return sorted(new, key=lambda file: (file.modified_ns, file.file.location))[:most]


def cut_files(files: Sequence[NewFile], format: str | None, *, number: int, arrival_ns: int) -> list[JournalEntry]:
    """Cut files into pieces with numbers from `number` on; raises `SourceError` for a file that cannot be opened.

    Looks into each file: the first bytes tell the format if none is given, and the lines of a file that is cut are
    counted.
    """
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
        formats = list(pool.map(lambda new: _format_of(new.file, format), files))
    pieces: list[JournalEntry] = []
    for (file, modified_ns), its_format in zip(files, formats, strict=True):
        arrival_ns = max(arrival_ns, modified_ns)
        for start, stop, lines in _pieces(file, its_format):
            pieces.append(
                JournalEntry(
                    number=number + len(pieces),
                    name=file.name,
                    location=file.location,
                    size_bytes=file.size_bytes,
                    modified_ns=modified_ns,
                    arrival_ns=arrival_ns,
                    format=its_format,
                    start=start,
                    stop=stop,
                    lines_before=lines,
                )
            )
    return pieces


def _format_of(file: InputFile, format: str | None) -> str | None:
    """Find the format of a file; None if it is not recognised."""
    head = file.head(HEAD_BYTES if format is None else len(b"PAR1"))
    if head[:4] == b"PAR1" or (format in (None, "ledto") and file.suffix in PARQUET_SUFFIXES):
        return PARQUET
    if format is not None:
        return format
    recognised = recognise(head, file.suffix)
    if recognised is None and file.suffix in known_format("ledto").suffixes and head.lstrip()[:1] not in (b"{", b"["):
        # It is not even JSON: its lines are quarantined one by one, each with its reason.
        return "ledto"
    return recognised


def _pieces(file: InputFile, format: str | None) -> Iterator[tuple[int, int | None, int]]:
    """Yield start, stop and the number of line ends before each piece."""
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


def describe_piece(piece: JournalEntry) -> bytes:
    """Make the payload of a piece's row, which `open_piece` reads."""
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


def open_piece(payload: bytes) -> FileSlice:
    """Open the piece of a file that a row names, for a source of the row's `format`.

    Raises `StreamSourceError` if the file is gone or has changed since it was seen: reading it now would give other
    rows than the first time.
    """
    piece = json.loads(payload)
    name, location = piece["name"], piece["location"]
    now = file_state(location)
    then = (piece["size_bytes"], piece["modified_ns"])
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
    file = InputFile(name, location, piece["size_bytes"], piece["modified_ns"])
    return file.piece(start=piece["start"], stop=piece["stop"], lines_before=piece["lines_before"])


def file_state(location: str) -> tuple[int, int] | None:
    """Get size in bytes and modification time in ns of a file; None if there is none."""
    system, path = _system(location)
    info = system.get_file_info(path)
    return (info.size, info.mtime_ns or 0) if info.type == pyarrow.fs.FileType.File else None


def _is_there(place: str) -> bool:
    """Tell whether the followed folder, or the one that the pattern begins with, can be listed."""
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
