"""Read the hosts and vector clocks of a text log's events: usual ones together, others one by one.

msgspec decodes the clocks of many events in one call. It accepts some JSON that `ledto.sources.json.strict` refuses, so
clocks are decoded together only if that makes no difference; see `_quick_clocks`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import msgspec

from ledto.sources.json.strict import value_of
from ledto.sources.json.typed import NOT_TAKEN
from ledto.sources.rows import BadRecord
from ledto.sources.shiviz.executions import Events, Execution

MOST_ENTRY: Final = 1 << 53
"""The largest count of JavaScript, and so of ShiViz."""

Clock: TypeAlias = dict[str, int]

_ESCAPED_CLOCK = re.compile(r'\s*\{\s*\\"')
_SHOWN = 60
_decode_clocks = msgspec.json.Decoder(list[dict[str, Annotated[int, msgspec.Meta(ge=0, le=MOST_ENTRY)]]]).decode


@dataclass(frozen=True, slots=True)
class Stamped:
    """Events of an execution that follow each other, with their clocks."""

    execution: Execution
    text: str
    """The text from the first event to the last."""
    start: int
    """Where `text` begins in the searched text."""
    spans: Sequence[tuple[int, int]]
    """Where each event begins and ends in the searched text."""
    lines: Sequence[int]
    groups: dict[str, Sequence[str | None]]
    """The texts of each named group, in the order of the groups."""
    hosts: Sequence[str]
    own_entries: Sequence[int]
    clocks: Sequence[Clock]
    bad: Mapping[int, BadRecord]
    """The errors of bad events, by number. Their clocks and own entries mean nothing."""

    def text_of(self, number: int) -> str:
        """Return the text of an event."""
        begin, end = self.spans[number]
        return self.text[begin - self.start : end - self.start]

    def without(self, left_out: Container[int]) -> Stamped:
        """Return all events but these."""
        kept = [number for number in range(len(self.hosts)) if number not in left_out]
        return Stamped(
            self.execution,
            self.text,
            self.start,
            [self.spans[number] for number in kept],
            [self.lines[number] for number in kept],
            {name: [texts[number] for number in kept] for name, texts in self.groups.items()},
            [self.hosts[number] for number in kept],
            [self.own_entries[number] for number in kept],
            [self.clocks[number] for number in kept],
            {},
        )


def read_stamps(events: Events) -> Stamped:
    """Read the hosts and clocks of events."""
    matches = events.matches
    columns = list(zip(*[match.groups() for match in matches], strict=True))
    group_numbers = sorted(matches[0].re.groupindex.items(), key=lambda item: item[1])
    groups: dict[str, Sequence[str | None]] = {name: columns[number - 1] for name, number in group_numbers}
    hosts, texts = groups["host"], groups["clock"]
    spans = [match.span() for match in matches]
    text = matches[0].string[spans[0][0] : spans[-1][1]]
    clocks = _quick_clocks(texts) if _is_plain(text) else None
    own_entries = None if clocks is None else list(map(dict.get, clocks, hosts))  # type: ignore[arg-type]
    bad: dict[int, BadRecord] = {}
    if clocks is None or own_entries is None or not all(own_entries) or not all(hosts):
        clocks, own_entries = [], []
        for number, (host, clock_text) in enumerate(zip(hosts, texts, strict=True)):
            clock: Clock = {}
            try:
                clock = _read_clock(host, clock_text or "", matches[number][0])
            except BadRecord as error:
                bad[number] = error
            clocks.append(clock)
            own_entries.append(clock.get(host or "", 0))
    return Stamped(events.execution, text, spans[0][0], spans, events.lines, groups, hosts, own_entries, clocks, bad)  # type: ignore[arg-type]


def _read_clock(host: str | None, text: str, event: str) -> Clock:
    """Parse the clock of an event. Raises `BadRecord`."""
    quick = _quick_clocks([text]) if host and _is_plain(event) else None
    return quick[0] if quick is not None and quick[0].get(host or "") else exact_clock(host, text, event)


def _is_plain(text: str) -> bool:
    """Return whether the text is UTF-8 without NUL characters."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return "\0" not in text


def _quick_clocks(texts: Sequence[str | None]) -> list[Clock] | None:
    r"""Decode all clocks in one call; None if one is unusual or malformed, so that `exact_clock` must read them.

    The texts are decoded as a list, each on a line of its own that begins with a brace. No string of JSON has a line end,
    and no brace follows another in a clock. So each text begins an element, and if there are as many elements as texts,
    each text is one element. A clock has two quotes for each key. It has more if a key occurs twice, of which msgspec keeps
    the last, or if a key has a quote, which is after a backslash.
    """
    if None in texts:
        return None
    joined = ",\n".join(texts)  # type: ignore[arg-type]
    if "\\" in joined or joined.count("\n") != joined.count("\n{") or joined.count("\n") != len(texts) - 1:
        return None
    try:
        clocks: list[Clock] = _decode_clocks(f"[{joined}]")
    except NOT_TAKEN:
        return None
    is_exact = len(clocks) == len(texts) and joined.count('"') == 2 * sum(map(len, clocks))
    return clocks if is_exact and joined.startswith("{") else None


def exact_clock(host: str | None, text: str, event: str) -> Clock:
    """Parse the clock of an event in every case. Raises `BadRecord`, which says what is wrong."""
    try:
        event.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRecord("not-utf8", "the text holds bytes that are not UTF-8") from None
    if not host:
        raise BadRecord("no-process", "the host is empty")
    if "\0" in host:
        raise BadRecord("bad-field", "the host holds a NUL character")
    clock = value_of(_unescape(text))
    if not isinstance(clock, dict):
        raise BadRecord("bad-clock", f"a clock is an object of counts, not {text[:_SHOWN]}")
    for name, count in clock.items():
        if type(count) is not int or not 0 <= count <= MOST_ENTRY:
            raise BadRecord("bad-clock", f"the entry of {name[:_SHOWN]!r} is a count up to 2**53, not {count!r:.60}")
        if "\0" in name:
            raise BadRecord("bad-clock", "the name of an entry holds a NUL character")
    if not clock.get(host):
        raise BadRecord("bad-clock", f"the clock does not count its own host {host[:_SHOWN]!r}")
    return clock


def _unescape(clock: str) -> str:
    r"""Remove the backslashes of a clock within a string, as TLA+ prints it: ``{\"n1\":1}``."""
    if _ESCAPED_CLOCK.match(clock):
        with suppress(ValueError):
            return str(json.loads(f'"{clock}"'))
    return clock
