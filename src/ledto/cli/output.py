"""Print text that cannot control the terminal; and choose what Ctrl-C does while a command works."""

from __future__ import annotations

import codecs
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TextIO

import typer

from ledto.errors import explain_full_disk, is_full

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130
"""Exit status after an interrupt, as shells show it: 128 and the signal's number."""
_ELSEWHERE = "\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
"""Besides the first 32 characters: more controls, marks that change the direction of writing, ends of lines, and halves of
surrogate pairs, which cannot be printed."""
_HOSTILE = re.compile(f"[\x00-\x1f{_ELSEWHERE}]")
_HOSTILE_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_ELSEWHERE}]")
_HOSTILE_BUT_COLOURS = re.compile(f"(\x1b\\[[0-9;]*m)|[\x00-\x08\x0b-\x1f{_ELSEWHERE}]")
_HOSTILE_IN_JSON = re.compile(f"[{_ELSEWHERE}]")


def escape_controls(text: str) -> str:
    """Escape characters that control a terminal or end a line."""
    return _HOSTILE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def say(text: object, *, err: bool = False) -> None:
    """Print one line, escaped."""
    typer.echo(escape_controls(str(text)), err=err)


def say_lines(text: object, *, err: bool = False) -> None:
    """Print a text of several lines. HAZARD: a name in it could imitate a line of ours. Use `say` for texts with names."""
    for line in str(text).split("\n"):
        say(line, err=err)


def json_text(value: Any, **options: Any) -> str:
    """Encode a value as JSON, with characters escaped that control a terminal."""
    text = json.dumps(value, ensure_ascii=False, **options)
    return _HOSTILE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_json(value: Any, *, indent: int | None = 2, err: bool = False, **options: Any) -> None:
    """Print an answer as JSON."""
    typer.echo(json_text(value, indent=indent, **options), err=err)


def explain_write_failure(place: object, failure: OSError) -> str:
    """Say why a file could not be written, and what to do."""
    if is_full(failure):
        return explain_full_disk(place)
    if isinstance(failure, NotADirectoryError):
        return f"{place} cannot be written: it is, or is below, a file where a folder is needed"
    return f"{place} cannot be written: {failure.strerror or failure}"


@contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears under its name when the block ends, whole; make its folder if need be.

    Exits with 1 and a sentence if it cannot be written, and with 2 if it would be a file of a history: that could end the
    history. A pipe or a device, such as /dev/null, is written to directly.
    """
    from ledto.history.layout import find_history_around

    # The file's own name is replaced, even if it is a link.
    if (history := find_history_around(path.parent)) is not None:
        say(f"{path} is inside the history {history}, which would be damaged: name a file outside of it", err=True)
        raise typer.Exit(2)
    special = path.exists() and not path.is_file()
    unfinished = path if special else path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            yield file
        if not special:
            unfinished.replace(path)
    except OSError as failure:
        say(explain_write_failure(path, failure), err=True)
        raise typer.Exit(1) from None
    finally:
        if not special:
            # Its folder may be a file, so that it was never made.
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Make the console for tables and bars. HAZARD: escape texts before you draw them."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    file = stream.stream if isinstance(stream, SafeStream) else stream
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def open_stdout_for_data() -> BinaryIO | EscapingWriter:
    """Open stdout for data that is not JSON: raw, or escaped if it is a terminal."""
    return EscapingWriter(sys.stdout) if sys.stdout.isatty() else sys.stdout.buffer


class EscapingWriter:
    """A binary file that prints UTF-8 with control characters escaped."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        """Print these bytes."""
        self._stream.write(_HOSTILE_IN_LINES.sub(_escape, self._decoder.decode(bytes(data))))
        return len(data)

    def flush(self) -> None:
        """Print all of them now."""
        self._stream.flush()

    def close(self) -> None:
        """Print the rest; leave the terminal open."""
        self.flush()


class SafeStream:
    """A text stream that escapes control characters. Colours pass, if it is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, escaped; return the number of characters."""
        if not self.stream.isatty():
            return self.stream.write(_HOSTILE_IN_LINES.sub(_escape, text))
        return self.stream.write(_HOSTILE_BUT_COLOURS.sub(lambda match: match[1] or _escape(match), text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def guard_streams() -> Iterator[None]:
    """Replace stdout and stderr by `SafeStream`s within the block. A second guard inside changes nothing."""
    before = sys.stdout, sys.stderr
    for name, stream in zip(("stdout", "stderr"), before, strict=True):
        if not isinstance(stream, SafeStream):
            setattr(sys, name, SafeStream(stream))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def exit_when_stdout_is_full() -> Iterator[None]:
    """End with 1 and a sentence if stdout goes to a disk that is full."""
    try:
        yield
    except OSError as failure:
        if not is_full(failure):
            raise
        discard_stdout()
        say(explain_full_disk("the disk that the output goes to"), err=True)
        sys.exit(1)


def discard_stdout() -> None:
    """Drop the output that is left. Nobody reads it, and the interpreter would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def end_at_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process at once, without clean-up.

    For compiled loops, in which Python's own handler never runs. Changes nothing outside the main thread, which alone may
    set handlers.
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
    """Hide the trace-backs that py4j logs at Ctrl-C. `KeyboardInterrupt` is raised as always."""
    logging.root.addFilter(_not_of_py4j)
    try:
        yield
    finally:
        logging.root.removeFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return not record.getMessage().endswith("while sending command.")
