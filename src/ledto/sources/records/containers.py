r"""Take lines of containers out of what Kubernetes and Docker write around them. Their files are recognised by themselves.

Two literal lines, of Kubernetes (CRI) and of Docker, and what is in both::

    2024-05-01T12:00:00.123456789Z stderr F card declined
    {"log":"card declined\n","stream":"stderr","time":"2024-05-01T12:00:00.123456789Z"}

    card declined

A long line is written in parts: all but the last have the tag ``P`` (Kubernetes), or no line end (Docker). Parts of one
stream are joined; those of the other stream may stand between them. So such a file is read from its beginning.

In plain text, the lines of a stack trace are joined to the line of their stream before them. They are indented, or begin
with ``Caused by:``. An indented line that begins with a level or a date is a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeAlias

import msgspec

from ledto.events.file_names import name_before_rotation
from ledto.sources.lines import LINE_LIMIT_BYTES
from ledto.sources.records.lines import MOST_CONTINUATION_BYTES, most_are, whole_lines

CRI, DOCKER = "cri", "docker"

_CRI = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([PF])(?::\S*)?(?: (.*))?",
    re.DOTALL,
)
_PODS = re.compile(r"(?:^|/)([^/_]+)_([^/_]+)_[^/_]+/([^/]+)/[^/]+$")
_CONTAINERS = re.compile(r"(?:^|/)([^/_]+)_([^/_]+)_([^/]+)-([0-9a-f]{64})\.log[^/]*$")
_DOCKER_ID = re.compile(r"(?:^|/)([0-9a-f]{64})-json\.log[^/]*$")
_SHORT_ID = 12
_LEVELS = rb"emerg|alert|crit|fatal|panic|severe|err|warn|notice|info|debug|trace|verbose"
_OF_STACK_TRACE = re.compile(
    rb"[ \t]++(?![\[<(]?(?:(?:" + _LEVELS + rb")[a-z]*\b|\d{4}[-/]\d\d))|(?:Caused by|Suppressed): ", re.IGNORECASE
)
_When: TypeAlias = dict[str, Any]


class _DockerLine(msgspec.Struct, gc=False):
    log: str
    stream: str
    time: str
    attrs: dict[str, Any] | None = None


_decode_docker = msgspec.json.Decoder(_DockerLine).decode


def wrapper_of(head: bytes) -> str | None:
    """Return what is written around the lines of a file that begins like this; None if nothing is."""
    lines = whole_lines(head)
    if most_are(lines, lambda line: _CRI.fullmatch(line) is not None):
        return CRI
    return DOCKER if most_are(lines, lambda line: _read_docker(line) is not None) else None


def file_stem(file: str) -> str:
    """Return the name of a file without its folders and suffixes. A rotated file has the name that it had before."""
    return PurePosixPath(name_before_rotation(file)).stem or file


def container_of(file: str) -> dict[str, str]:
    """Return what the path of a file says about its container, as Kubernetes and Docker name their files."""
    if pods := _PODS.search(file):
        return {"namespace": pods[1], "pod": pods[2], "name": pods[3]}
    if containers := _CONTAINERS.search(file):
        return {
            "namespace": containers[2],
            "pod": containers[1],
            "name": containers[3],
            "id": containers[4][:_SHORT_ID],
        }
    docker = _DOCKER_ID.search(file)
    return {} if docker is None else {"id": docker[1][:_SHORT_ID]}


@dataclass(slots=True)
class UnwrappedLines:
    """Lines of a container, with their places in the file, in the order in which they end."""

    lines: list[bytes] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    containers: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By place: who wrote the line, on which stream, and when. A line that is not wrapped has none."""


@dataclass(slots=True)
class _LastLine:
    """The last line of a stream, with those of a stack trace behind it."""

    place: int
    when: _When
    texts: list[bytes]
    size_bytes: int = 0
    """The size of the stack trace."""


class Unwrapper:
    """A reader of one file. It keeps lines that have not ended. With `joins_traces`, those of stack traces are joined."""

    def __init__(self, wrapper: str, file: str, *, joins_traces: bool = False) -> None:
        self._read = _read_cri if wrapper == CRI else _read_docker
        self._container = container_of(file)
        self._open: dict[str, tuple[int, _When, list[bytes]]] = {}
        """By stream: a line of which parts are to come."""
        self._joins_traces = joins_traces
        self._last: dict[str, _LastLine] = {}
        self.problem = f"not-{wrapper}: the line is not as others in this file are"
        """What is wrong with a line that is not wrapped."""

    def unwrap(self, lines: Sequence[bytes], places: Sequence[int], *, is_last: bool) -> UnwrappedLines:
        """Take the next lines of a file; return those that are complete. With `is_last`, return the others as well."""
        found = UnwrappedLines()
        for line, place in zip(lines, places, strict=True):
            parts = self._read(line)
            if parts is None:
                found.lines.append(line)
                found.places.append(place)
                continue
            when, stream, is_whole, text = parts
            begun = self._open.get(stream)
            if begun is None and is_whole:
                self._end_line(found, place, when, stream, text)
                continue
            if begun is None:
                begun = self._open[stream] = (place, when, [])
            begun[2].append(text)
            if is_whole or sum(map(len, begun[2])) > LINE_LIMIT_BYTES:
                self._close(found, stream)
        for stream in list(self._open) if is_last else ():
            self._close(found, stream)
        for stream in list(self._last) if is_last else ():
            self._add_last(found, stream)
        return found

    def _close(self, found: UnwrappedLines, stream: str) -> None:
        place, when, texts = self._open.pop(stream)
        self._end_line(found, place, when, stream, b"".join(texts))

    def _end_line(self, found: UnwrappedLines, place: int, when: _When, stream: str, text: bytes) -> None:
        """Take a line that is complete."""
        if not self._joins_traces:
            self._add(found, place, when, stream, text)
        elif text.strip():
            last = self._last.get(stream)
            if last is not None and _OF_STACK_TRACE.match(text) and last.size_bytes < MOST_CONTINUATION_BYTES:
                last.texts.append(text)
                last.size_bytes += len(text) + 1
                return
            if last is not None:
                self._add_last(found, stream)
            self._last[stream] = _LastLine(place, when, [text])

    def _add_last(self, found: UnwrappedLines, stream: str) -> None:
        last = self._last.pop(stream)
        self._add(found, last.place, last.when, stream, b"\n".join(last.texts))

    def _add(self, found: UnwrappedLines, place: int, when: _When, stream: str, text: bytes) -> None:
        found.lines.append(text)
        found.places.append(place)
        found.containers[place] = {**self._container, "stream": stream, **when}


def _read_cri(line: bytes) -> tuple[_When, str, bool, bytes] | None:
    """Return the time, the stream, whether the line ends here, and its text; None if it is not wrapped."""
    match = _CRI.fullmatch(line.removesuffix(b"\r"))
    return (
        None if match is None else ({"time": match[1].decode()}, match[2].decode(), match[3] == b"F", match[4] or b"")
    )


def _read_docker(line: bytes) -> tuple[_When, str, bool, bytes] | None:
    """Return the time and what else is known, the stream, whether the line ends here, and its text; None if not wrapped."""
    if not line.startswith(b'{"log":'):
        return None
    try:
        read = _decode_docker(line)
        text = read.log.encode()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    when: _When = {"time": read.time} if read.attrs is None else {"time": read.time, "attrs": read.attrs}
    return when, read.stream, text.endswith(b"\n"), text.removesuffix(b"\n")
