"""Events of a text log with their hosts and vector clocks: many at once for what is usual, one by one for the rest.

msgspec decodes the clocks of many events in one call. It lets through what `whence.sources.strict_json` refuses, so clocks
are taken together only if that cannot matter; see `_quick_clocks`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import msgspec

from whence.sources.executions import Events, Execution
from whence.sources.quick_objects import NOT_TAKEN
from whence.sources.rows import BadRecord
from whence.sources.strict_json import value_of

MOST_ENTRY: Final = 1 << 53
"""The largest count that JavaScript, and so ShiViz, can count to."""

Clock: TypeAlias = dict[str, int]

_ESCAPED_CLOCK = re.compile(r'\s*\{\s*\\"')
_SHOWN = 60
_decode_clocks = msgspec.json.Decoder(list[dict[str, Annotated[int, msgspec.Meta(ge=0, le=MOST_ENTRY)]]]).decode


@dataclass(frozen=True, slots=True)
class Stamped:
    """Some events of an execution that follow each other."""

    execution: Execution
    text: str
    """All of it, from the first event to the last."""
    start: int
    """Where in a longer text it begins."""
    spans: Sequence[tuple[int, int]]
    """Where in that longer text each begins and ends."""
    lines: Sequence[int]
    groups: dict[str, Sequence[str | None]]
    """The texts of each named group, in the order of the groups."""
    hosts: Sequence[str]
    own: Sequence[int]
    clocks: Sequence[Clock]
    bad: Mapping[int, BadRecord]
    """Number -> what is wrong with it; its clock and own entry mean nothing."""

    def text_of(self, number: int) -> str:
        """The text of one of them."""
        begin, end = self.spans[number]
        return self.text[begin - self.start : end - self.start]

    def without(self, left_out: Container[int]) -> Stamped:
        """The others."""
        kept = [number for number in range(len(self.hosts)) if number not in left_out]
        return Stamped(
            self.execution,
            self.text,
            self.start,
            [self.spans[number] for number in kept],
            [self.lines[number] for number in kept],
            {name: [texts[number] for number in kept] for name, texts in self.groups.items()},
            [self.hosts[number] for number in kept],
            [self.own[number] for number in kept],
            [self.clocks[number] for number in kept],
            {},
        )


def stamped(events: Events) -> Stamped:
    """The events with their hosts and clocks."""
    found = events.found
    columns = list(zip(*[each.groups() for each in found], strict=True))
    groups: dict[str, Sequence[str | None]] = {
        name: columns[number - 1] for name, number in sorted(found[0].re.groupindex.items(), key=lambda each: each[1])
    }
    hosts, texts = groups["host"], groups["clock"]
    spans = [each.span() for each in found]
    text = found[0].string[spans[0][0] : spans[-1][1]]
    clocks = _quick_clocks(texts) if _is_plain(text) else None
    own = None if clocks is None else list(map(dict.get, clocks, hosts))  # type: ignore[arg-type]
    bad: dict[int, BadRecord] = {}
    if clocks is None or own is None or not all(own) or not all(hosts):
        clocks, own = [], []
        for number, (host, given) in enumerate(zip(hosts, texts, strict=True)):
            clock: Clock = {}
            try:
                clock = _clock(host, given or "", found[number][0])
            except BadRecord as error:
                bad[number] = error
            clocks.append(clock)
            own.append(clock.get(host or "", 0))
    return Stamped(events.execution, text, spans[0][0], spans, events.lines, groups, hosts, own, clocks, bad)  # type: ignore[arg-type]


def _clock(host: str | None, text: str, event: str) -> Clock:
    """The clock of an event; raises `BadRecord`."""
    quick = _quick_clocks([text]) if host and _is_plain(event) else None
    return quick[0] if quick is not None and quick[0].get(host or "") else exact_clock(host, text, event)


def _is_plain(text: str) -> bool:
    """Whether the text is UTF-8, without NUL characters."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return "\0" not in text


def _quick_clocks(texts: Sequence[str | None]) -> list[Clock] | None:
    r"""The clocks that the texts are; None if the exact reader must look, for anything unusual, and to say what is wrong.

    They are decoded as a list, each in a line of its own that begins with a brace. In JSON no string goes over a line end,
    and in a clock no brace follows another, so each text begins an element; as many elements as texts means one each. A key
    has two quotes, unless one is given twice, of which msgspec keeps the last, or has a quote in it, after a backslash.
    """
    if None in texts:
        return None
    together = ",\n".join(texts)  # type: ignore[arg-type]
    if "\\" in together or together.count("\n") != together.count("\n{") or together.count("\n") != len(texts) - 1:
        return None
    try:
        clocks: list[Clock] = _decode_clocks(f"[{together}]")
    except NOT_TAKEN:
        return None
    is_whole = len(clocks) == len(texts) and together.count('"') == 2 * sum(map(len, clocks))
    return clocks if is_whole and together.startswith("{") else None


def exact_clock(host: str | None, text: str, event: str) -> Clock:
    """The clock of an event, by the reader that knows every case; raises `BadRecord`."""
    try:
        event.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRecord("not-utf8", "the text holds bytes that are not UTF-8") from None
    if not host:
        raise BadRecord("no-process", "the host is empty")
    if "\0" in host:
        raise BadRecord("bad-field", "the host holds a NUL character")
    clock = value_of(_unescaped(text))
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


def _unescaped(clock: str) -> str:
    r"""The clock without the backslashes of a text that it stands in, as TLA+ prints it: ``{\"n1\":1}``."""
    if _ESCAPED_CLOCK.match(clock):
        with suppress(ValueError):
            return str(json.loads(f'"{clock}"'))
    return clock
