"""Files that hold what a live history needs to go on: a line that says what they are, then a value.

::

    whence live state, format 5, written by whence 0.1.0

The value is one of `whence.history.codec`. Readers of a history open no such file. A writer does, and it goes on from its
own format alone: a history that another version began stays as it is, to be read.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version
from typing import TypeVar

from whence.history import layout
from whence.history.codec import (NotDecoded, decode, encode)
from whence.history.errors import UnsupportedFormat
from whence.history.sealed import (damaged, read_sealed, write_sealed)
from whence.history.store import Store

T = TypeVar("T")

STATE_FORMAT = 5
"""Of state files. Another number whenever a class that they hold changes. Format 1 was a pickle, which may run code when it
is read: none is ever opened."""
SUFFIX = "state"
_HEADER = re.compile(rb"whence live state, format (\d{1,9}), written by (whence [^\n]{1,100})\n")
_LONGEST_HEADER = 200


def write_state(store: Store, run: str, stem: str, value: object) -> str:
    """Write a value of a dataclass to a sealed file of a run; gives the file's name."""
    header = f"whence live state, format {STATE_FORMAT}, written by {_this_version()}\n"
    return write_sealed(store, run, stem, SUFFIX, header.encode() + encode(value))


def read_state(store: Store, run: str, name: str, kind: type[T]) -> T:
    """The value that `write_state` wrote; raises `UnsupportedFormat` for another version's, and `DamagedHistory`."""
    path = f"{layout.run_folder(run)}/{name}"
    if not name.endswith(f".{SUFFIX}"):
        raise _refused(store, "1", "an early version of whence")
    content = read_sealed(store, path)
    header = _HEADER.match(content[:_LONGEST_HEADER])
    if header is None:
        raise damaged(store.place(path), "it does not say which format it has")
    if int(header[1]) != STATE_FORMAT:
        raise _refused(store, header[1].decode(), header[2].decode(errors="replace"))
    try:
        return decode(content[header.end() :], kind)
    except NotDecoded as fault:
        raise damaged(store.place(path), f"it holds {fault}") from None


def _refused(store: Store, written: str, by: str) -> UnsupportedFormat:
    return UnsupportedFormat(
        f"the live history at {store} cannot go on: its state has format {written}, written by {by}, and {_this_version()} "
        f"goes on from format {STATE_FORMAT}. Nothing was changed, and it can be read as before. Go on with the version "
        "that wrote it, or follow into another folder"
    )


@cache
def _this_version() -> str:
    return f"whence {version('whence')}"
