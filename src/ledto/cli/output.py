"""What Ctrl-C does while a command works."""

from __future__ import annotations

import codecs
import json
import logging
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TextIO

import typer

if TYPE_CHECKING:
    from rich.console import Console

_ELSEWHERE = "\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
"""Besides the first 32: more controls, marks that turn the direction of writing, ends of lines, and halves of characters,
which cannot be printed at all."""
_HOSTILE = re.compile(f"[\x00-\x1f{_ELSEWHERE}]")
_HOSTILE_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_ELSEWHERE}]")
_HOSTILE_BUT_COLOURS = re.compile(f"(\x1b\\[[0-9;]*m)|[\x00-\x08\x0b-\x1f{_ELSEWHERE}]")
_HOSTILE_IN_JSON = re.compile(f"[{_ELSEWHERE}]")


def spelt_out(text: str) -> str:
    """The text as one line that does nothing to a terminal."""
    return _HOSTILE.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def say(text: object, *, err: bool = False) -> None:
    """Print one line."""
    typer.echo(spelt_out(str(text)), err=err)


def say_lines(text: object, *, err: bool = False) -> None:
    """Print a text of our own or of DuckDB's that has several lines. A name in it could feign a line: prefer `say`."""
    for line in str(text).split("\n"):
        say(line, err=err)


def json_text(value: Any, **options: Any) -> str:
    """A value as JSON that a terminal shows as it is."""
    text = json.dumps(value, ensure_ascii=False, **options)
    return _HOSTILE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_json(value: Any, *, indent: int | None = 2, err: bool = False, **options: Any) -> None:
    """Print an answer as JSON."""
    typer.echo(json_text(value, indent=indent, **options), err=err)


def not_written(place: object, failure: OSError) -> str:
    """Why a file could not be written, and what to do."""
    from ledto.history.store import NoSpace, is_full

    if is_full(failure):
        return str(NoSpace(place))
    if isinstance(failure, NotADirectoryError):
        return f"{place} cannot be written: it is, or is below, a file where a folder is needed"
    return f"{place} cannot be written: {failure.strerror or failure}"


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Where tables and bars are drawn. HAZARD: what is drawn must have been spelt out."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    file = stream.stream if isinstance(stream, SafeStream) else stream
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def data_to_stdout() -> BinaryIO | Spelling:
    """Where data is written that is not JSON: as it is, unless a terminal would show it."""
    return Spelling(sys.stdout) if sys.stdout.isatty() else sys.stdout.buffer


class Spelling:
    """Takes bytes in UTF-8, and shows them spelt out, line by line."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        """Show these bytes."""
        self._stream.write(_HOSTILE_IN_LINES.sub(_spelt, self._decoder.decode(bytes(data))))
        return len(data)

    def flush(self) -> None:
        """Show all of them now."""
        self._stream.flush()

    def close(self) -> None:
        """Nothing more comes; the terminal stays open."""
        self.flush()


class SafeStream:
    """A stream for text that spells out what a terminal would obey; of a terminal's own commands, colours are let pass."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, made harmless."""
        if not self.stream.isatty():
            return self.stream.write(_HOSTILE_IN_LINES.sub(_spelt, text))
        return self.stream.write(_HOSTILE_BUT_COLOURS.sub(lambda found: found[1] or _spelt(found), text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Guard stdout and stderr; within itself it does nothing."""
    before = sys.stdout, sys.stderr
    for name, stream in zip(("stdout", "stderr"), before, strict=True):
        if not isinstance(stream, SafeStream):
            setattr(sys, name, SafeStream(stream))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


INTERRUPTED = 130
"""Exit status after an interrupt, as shells show it: 128 and the signal's number."""


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """An interrupt ends the process at once, without clean-up.

    For compiled loops, during which Python's own handler never gets its turn. Outside the main thread, which is the
    only one that may choose, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """An interrupt raises `KeyboardInterrupt` as ever, without the trace-backs that py4j logs besides."""
    logging.root.addFilter(_not_of_py4j)
    try:
        yield
    finally:
        logging.root.removeFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return not record.getMessage().endswith("while sending command.")
