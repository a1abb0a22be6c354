"""Find and open inputs: files, folders and patterns, on this machine or behind a URI that pyarrow knows."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.fs

from ledto.events.file_names import COMPRESSED, name_before_rotation, without_compression
from ledto.sources.contract import ByteStream, FileSlice, SourceError, TornStream

_SYSTEM_LOGS = ("syslog", "messages")
"""Logs of the system that have no suffix. They are known wherever ``.log`` is."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read."""

    name: str
    """Its name in rows: a path relative to the current folder if it is below it, else an absolute path or a URI."""
    location: str
    """An absolute path or a URI that any machine with the same storage can open."""
    size_bytes: int
    modified_ns: int | None = None
    """When it was last written; None if that is not known."""

    @property
    def suffix(self) -> str:
        """Return the suffix of the format, in lower case, without that of a compression or a rotation."""
        return PurePosixPath(name_before_rotation(self.location)).suffix.lower()

    @property
    def compression(self) -> str | None:
        """Return the compression that its suffix says, by pyarrow's name; None if it is not compressed."""
        return COMPRESSED.get(PurePosixPath(self.location).suffix.lower())

    def piece(self, *, start: int = 0, stop: int | None = None, lines_before: int = 0) -> FileSlice:
        """Make a piece of the file for a source."""
        opener = partial(open_at, self.location, self.compression)
        return FileSlice(self.name, opener, start, stop, lines_before, self.modified_ns)

    def head(self, size: int) -> bytes:
        """Read the first bytes, decompressed. Raises `SourceError` if the file cannot be read."""
        head = b""
        try:
            stream = open_at(self.location, self.compression, 0)
            try:
                while len(head) < size and (part := stream.read(size - len(head))):
                    head += part
            except TornStream:
                pass
            finally:
                stream.close()
        except OSError as error:
            raise SourceError(f"{self.name} cannot be read: {_shorten(error)}") from None
        return head


def open_at(location: str, compression: str | None, offset: int) -> ByteStream:
    """Open a file at an offset, which counts decompressed bytes."""
    system, path = _open_system(location)
    file = system.open_input_file(path)
    if compression is None:
        file.seek(offset)
        return file  # type: ignore[no-any-return]
    is_gzip = compression == "gzip"
    stream = _Gunzipped(file) if is_gzip else _Decompressed(pa.CompressedInputStream(file, compression))
    while offset > 0:
        skipped = len(stream.read(min(offset, 4 << 20)))
        if not skipped:
            break
        offset -= skipped
    return stream


_PACKED_BYTES = 1 << 20
_UNPACKED_BYTES = 1 << 16


class _Gunzipped:
    """A stream of gzip that returns every good byte of a torn file before it raises. Pyarrow's loses its last read."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._member = zlib.decompressobj(wbits=31)
        self._ready = b""
        self._torn: str | None = None

    def read(self, size: int, /) -> bytes:
        while not self._ready and self._torn is None:
            packed = self._member.unused_data or self._member.unconsumed_tail or bytes(self._file.read(_PACKED_BYTES))
            if not packed:
                if not self._member.eof and self._file.tell():
                    self._torn = "the file ends in the middle of compressed data"
                break
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            try:
                self._ready = self._member.decompress(packed, size)
            except zlib.error as error:
                self._torn = _shorten(error)
        if not self._ready and self._torn is not None:
            raise TornStream(self._torn)
        data, self._ready = self._ready[:size], self._ready[size:]
        return data

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True)
class _Decompressed:
    """A stream that reads little at a time, so that little is lost if the file is torn."""

    stream: pa.CompressedInputStream
    torn: str | None = None

    def read(self, size: int, /) -> bytes:
        if self.torn is not None:
            raise TornStream(self.torn)
        parts: list[bytes] = []
        try:
            while size > 0 and (part := bytes(self.stream.read(min(size, _UNPACKED_BYTES)))):
                parts.append(part)
                size -= len(part)
        except (OSError, pa.ArrowException) as error:
            self.torn = _shorten(error)
            if not parts:
                raise TornStream(self.torn) from None
        return b"".join(parts)

    def close(self) -> None:
        self.stream.close()


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files of a run, and what else was there."""

    files: list[InputFile]
    unread: list[str]
    """Names of files in folders that are left out, because their names do not tell that they are logs."""
    linked: list[str]
    """Names that are left out because they are links to files that are read by another name."""


def find_files(inputs: Sequence[str], suffixes: Sequence[str], *, followed: bool = False) -> list[InputFile]:
    """List the files that the inputs name, as `look_for_files` does."""
    return look_for_files(inputs, suffixes, followed=followed).files


def look_for_files(inputs: Sequence[str], suffixes: Sequence[str], *, followed: bool = False) -> FoundFiles:
    """List the files that the inputs name, each once, in order of input and name; and those that are left out.

    An input is a file, a folder or a pattern. A file may have any name. A folder means all files in it and its
    sub-folders that have one of these `suffixes`, except those whose name, or folder's name, begins with ``.`` or ``_``.
    The suffix of a rotation or of a compression may follow. A pattern (``*``, ``?``, ``[...]``; ``**`` for any depth)
    means the files and folders that it matches. Of several paths to one local file, the one without links is taken.
    With `followed`, rotated files in folders, and folders that a pattern matches, are left out: what is there may have
    been read before it was renamed. Raises `SourceError` for an input without files.
    """
    if not inputs:
        raise SourceError("no input is given; name files, folders or patterns such as logs/*.jsonl")
    paths: dict[str, dict[str, InputFile]] = {}
    unread: dict[str, str] = {}
    for argument in inputs:
        found, left_out = _find(str(argument), _Wanted(tuple(suffixes), followed))
        for file in found:
            paths.setdefault(_real_path(file.location), {}).setdefault(file.location, file)
        unread |= {_real_path(file.location): file.name for file in left_out}
    files = [min(same.values(), key=lambda file: _rank(file, real)) for real, same in paths.items()]
    read = {file.location for file in files}
    return FoundFiles(
        files,
        [name for real, name in unread.items() if real not in paths],
        [file.name for same in paths.values() for file in same.values() if file.location not in read],
    )


def _real_path(location: str) -> str:
    """Return the path without links of a file of this machine, or the URI of another."""
    return location if _URI.match(location) else os.path.realpath(location)


def _rank(file: InputFile, real: str) -> tuple[bool, bool]:
    """Rank a path to a file: first the one without links, then those whose folders only are links."""
    return file.location != real, os.path.islink(file.location)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What files are read of a folder."""

    suffixes: tuple[str, ...]
    followed: bool

    def has(self, name: str) -> bool:
        """Return whether a file of this name is read."""
        plain = without_compression(name).lower() if self.followed else name_before_rotation(name).lower()
        return plain.endswith(self.suffixes) or (plain in _SYSTEM_LOGS and ".log" in self.suffixes)


def _find(argument: str, wanted: _Wanted) -> tuple[list[InputFile], list[InputFile]]:
    """Find the files that an input names, and those of its folders that are left out."""
    if not argument:
        raise SourceError("an input is empty text; name a file, a folder or a pattern such as logs/*.jsonl")
    try:
        found, left_out = _list(argument, wanted)
    except (OSError, pa.ArrowInvalid) as error:
        raise SourceError(f"{argument} cannot be read: {_shorten(error)}") from None
    return _make_inputs(argument, found), _make_inputs(argument, left_out)


def _list(argument: str, wanted: _Wanted) -> tuple[list[pyarrow.fs.FileInfo], list[pyarrow.fs.FileInfo]]:
    system, path = _open_system(argument)
    info = system.get_file_info(path)
    if info.type == pyarrow.fs.FileType.File:
        return [info], []
    if info.type == pyarrow.fs.FileType.Directory:
        listed = system.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
        shown = [file for file in listed if _is_shown(file, path)]
        files = [file for file in shown if wanted.has(file.base_name)]
        if not files:
            raise SourceError(
                f"the folder {argument} holds no file that ends in {', '.join(wanted.suffixes)}; name files by a pattern"
            )
        return files, [file for file in shown if not wanted.has(file.base_name)]
    if not _PATTERN.search(path):
        raise SourceError(f"{argument} does not exist; check the path")
    fixed = PurePosixPath(*_before_pattern(PurePosixPath(path).parts))
    selector = pyarrow.fs.FileSelector(str(fixed), recursive=True, allow_not_found=True)
    pattern = _as_regex(path)
    listed = system.get_file_info(selector)
    folders = {file.path for file in listed if not file.is_file and pattern.fullmatch(file.path)}
    files = []
    left_out: list[pyarrow.fs.FileInfo] = []
    for file in listed:
        if not _is_shown(file, str(fixed)):
            continue
        if pattern.fullmatch(file.path):
            files.append(file)
        elif not wanted.followed and not folders.isdisjoint(map(str, PurePosixPath(file.path).parents)):
            (files if wanted.has(file.base_name) else left_out).append(file)
    if not files:
        raise SourceError(
            f"no file matches {argument}, nor is one with a known suffix in a folder that does; check the pattern, and "
            "quote it so that the shell leaves it alone"
        )
    return files, left_out


def _open_system(location: str) -> tuple[pyarrow.fs.FileSystem, str]:
    if _URI.match(location):
        scheme_end = location.index("://") + 3
        # In a URI, the characters of a pattern would be an error or begin a query.
        escaped = location[:scheme_end] + location[scheme_end:].replace("?", "%3F").replace("[", "%5B").replace(
            "]", "%5D"
        )
        system, path = pyarrow.fs.FileSystem.from_uri(escaped)
        return system, path
    return pyarrow.fs.LocalFileSystem(), str(Path(location).absolute())


def _make_inputs(argument: str, files: Sequence[pyarrow.fs.FileInfo]) -> list[InputFile]:
    return [_make_input(argument, file) for file in sorted(files, key=lambda file: file.path)]


def _make_input(argument: str, info: pyarrow.fs.FileInfo) -> InputFile:
    if _URI.match(argument) and not argument.lower().startswith("file://"):
        location = argument[: argument.index("://") + 3] + info.path
        return InputFile(location, location, info.size, info.mtime_ns)
    path = Path(info.path)
    current = Path.cwd()
    name = path.relative_to(current) if path.is_relative_to(current) else path
    return InputFile(str(name), str(path), info.size, info.mtime_ns)


def _is_shown(info: pyarrow.fs.FileInfo, folder: str) -> bool:
    """Return whether this is a file, and no part of its path below the folder begins with ``.`` or ``_``."""
    below = PurePosixPath(info.path).relative_to(folder).parts
    is_file = bool(info.type == pyarrow.fs.FileType.File)
    return is_file and not any(part.startswith((".", "_")) for part in below)


def is_named_by(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a file, or a folder that it is in, by its whole path or any part of it."""
    expression = _as_regex(pattern.strip("/"))
    parts = name.strip("/").split("/")
    bounds = combinations(range(len(parts) + 1), 2)
    return any(expression.fullmatch("/".join(parts[start:stop])) for start, stop in bounds)


def _before_pattern(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the leading folders without pattern characters."""
    for number, part in enumerate(parts):
        if _PATTERN.search(part):
            return parts[:number]
    return parts


def _as_regex(pattern: str) -> re.Pattern[str]:
    """Translate a pattern of file names into a regular expression."""
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern, re.DOTALL)
    meaning = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = []
    for token in tokens:
        if len(token) > 2 and token[0] == "[":
            inside = token[1:-1].replace("\\", r"\\")
            parts.append(f"[^{inside[1:]}]" if inside[0] == "!" else f"[{inside}]")
        else:
            parts.append(meaning.get(token) or re.escape(token))
    return re.compile("".join(parts), re.DOTALL)


def _shorten(error: BaseException) -> str:
    """Return the error's message without pyarrow's details."""
    return str(error).partition(". Detail:")[0].partition("\n")[0]
