"""Read and write the files of a history, in a folder of any file system that pyarrow knows.

A root is a path (relative, with spaces or ``~``) or a URI: ``file://``, ``s3://``, ``gs://``, ``abfs://``, ``hdfs://``.
Names within it use ``/``. A file is written whole or not at all: on a local file system into a temporary file that is
synced and renamed; object stores show an object when it is complete.

HAZARD: HDFS cannot replace a file in one step. A history there is missing for an instant while it is replaced.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from ledto.errors import LedtoError, explain_full_disk, is_full

PUTS_WHOLE = frozenset({"s3", "gcs", "abfs"})
"""File systems on which a file appears only when its stream is closed."""
TEMPORARY = ".writing-"
"""The prefix of the names of files that are being written."""


class StorageError(LedtoError):
    """A file of a history could not be read or written."""


class NoSpace(StorageError):
    """A disk is full, or a quota is used up."""

    def __init__(self, place: object) -> None:
        super().__init__(explain_full_disk(place))


class Store:
    """One folder and the files below it. Pickles as its root, so that tasks on other machines can use it."""

    __slots__ = ("_files", "_folder", "root")

    root: str
    """The absolute path, or the URI."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        text = os.fspath(root)
        if not text:
            raise StorageError("a history needs a path or a URI, and this one is empty")
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
            text = text.rstrip("/")
            try:
                self._files, self._folder = fs.FileSystem.from_uri(quote(text, safe="/:%?&=@+,;~[]"))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as refused:
                raise StorageError(f"{text} cannot be used as a folder: {refused}") from None
        else:
            text = os.path.abspath(os.path.expanduser(text))
            self._files, self._folder = fs.LocalFileSystem(), text
        self.root = self._folder if self.is_local else text

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.root,)

    def __repr__(self) -> str:
        return f"Store({self.root!r})"

    def __str__(self) -> str:
        return self.root

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine's file system."""
        return bool(self._files.type_name == "local")

    def is_same_folder(self, other: Store) -> bool:
        """Tell whether another store is this folder, perhaps through a link."""
        if self.is_local and other.is_local:
            return os.path.realpath(self.root) == os.path.realpath(other.root)
        return self.root == other.root

    def place(self, name: str) -> str:
        """Give the path or URI of a file, for messages and for other programs."""
        return f"{self.root}/{name}" if name else self.root

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}" if name else str(self._folder)

    def exists(self, name: str) -> bool:
        """Tell whether there is a file or folder of this name."""
        return bool(self._files.get_file_info(self._path(name)).type != fs.FileType.NotFound)

    def read(self, name: str) -> bytes:
        """Read a whole file. Raises `FileNotFoundError`."""
        if self.is_local:
            return Path(self._path(name)).read_bytes()
        with self._files.open_input_file(self._path(name)) as file:
            return bytes(file.read())

    def signature(self, name: str) -> tuple[int, ...] | None:
        """Return a value that changes when a file is replaced; None if only reading it can tell. Raises `OSError`."""
        if not self.is_local:
            return None
        found = os.stat(self._path(name))
        return found.st_ino, found.st_mtime_ns, found.st_size

    def open(self, name: str) -> pa.NativeFile:
        """Open a file to read at any offset, as Parquet readers do. Raises `FileNotFoundError`."""
        # Not mapped into memory: reading a mapped file that was cut would kill the process.
        return self._files.open_input_file(self._path(name))

    def write(self, name: str, data: bytes | memoryview | pa.Buffer) -> None:
        """Write or replace a whole file, atomically. Raises `NoSpace`."""
        with self.writing(name) as file:
            file.write(data)

    @contextmanager
    def writing(self, name: str) -> Iterator[pa.NativeFile]:
        """Open a stream into a file. The file appears when the block ends; if the block raises, it does not.

        Raises `NoSpace` if the disk is full.
        """
        try:
            with self._writing(name) as file:
                yield file
        except OSError as failure:
            if is_full(failure):
                raise NoSpace(self.root) from failure
            raise

    @contextmanager
    def _writing(self, name: str) -> Iterator[pa.NativeFile]:
        path = self._path(name)
        folder, _, last = path.rpartition("/")
        if self._files.type_name in PUTS_WHOLE:
            with self._files.open_output_stream(path) as file:
                yield file
            return
        self._files.create_dir(folder, recursive=True)
        temporary = f"{folder}/{TEMPORARY}{uuid4().hex}-{last}"
        try:
            with self._files.open_output_stream(temporary) as file:
                yield file
            if self.is_local:
                _sync(temporary)
                os.replace(temporary, path)
            else:
                if self.exists(name):
                    self._files.delete_file(path)
                self._files.move(temporary, path)
        except BaseException:
            if self._files.get_file_info(temporary).type != fs.FileType.NotFound:
                self._files.delete_file(temporary)
            raise

    def sync(self, folder: str) -> None:
        """Make the names in a folder survive a loss of power. `writing` does so only for the contents of files."""
        if self.is_local:
            _sync(self._path(folder))

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless it exists; tell whether it was written.

        If several try on one local file system, one succeeds. HAZARD: elsewhere two that try at the same moment may both
        succeed.
        """
        path = self._path(name)
        if not self.is_local:
            if self.exists(name):
                return False
            self.write(name, data)
            return True
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return True

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, sorted; empty if there is no such folder."""
        chosen = fs.FileSelector(self._path(folder), allow_not_found=True)
        return sorted(info.base_name for info in self._files.get_file_info(chosen))

    def make_folder(self, folder: str) -> None:
        """Make a folder, and those above it; do nothing if it exists."""
        self._files.create_dir(self._path(folder), recursive=True)

    def delete(self, name: str) -> None:
        """Delete a file; do nothing if there is none."""
        try:
            self._files.delete_file(self._path(name))
        except FileNotFoundError:
            return

    def delete_folder(self, folder: str) -> None:
        """Delete a folder and everything in it; do nothing if there is none."""
        try:
            self._files.delete_dir(self._path(folder))
        except FileNotFoundError:
            return


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
