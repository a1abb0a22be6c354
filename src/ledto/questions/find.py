"""Find events by text, and by what else is known of them: errors, processes, times, conditions.

An event has a text if the words of the text follow each other in its name, or in the value of one of its attributes. Case
does not matter, nor does what stands between words: ``order failed`` is found in ``ORDER FAILED: 48208`` and in
``order.failed``, but not in ``reorder failed`` (`ledto.history.words`).

The search goes from the newest segment back, or from the oldest on, and ends when it has enough. It reads only row groups
that the index of words does not rule out (`ledto.history.word_index`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.history import layout
from ledto.history.errors import AmbiguousEvent, BadCondition
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.history.word_index import FAILURE, WantedWord
from ledto.history.words import has_phrase, json_values, pairs_of, split_words
from ledto.questions.answer import FOUND, EventAnswer, count
from ledto.questions.event import Event, events_at
from ledto.questions.why import Filter

Mask = NDArray[np.bool_]
OnProgress = Callable[[int], bool | None]
"""Gets how many events were passed so far. The search ends if it returns False."""

NAMES_LOOKED_AT = 16_384
"""In how many of the newest events names are looked for that are like a text."""
SHOWN = 5
"""How many names and events a message lists."""
MOST_COMPARED = 500
"""How many characters of a text a pattern has. A longer pattern would not be compiled."""
WORTH_ASKING = 3
"""How many errors are shown to somebody who has asked nothing yet."""
_ESCAPED = r"\u"
_BETWEEN = r"(?:\\[bfnrt]|[^a-z0-9])"
"""In a pattern: a character that belongs to no word, or an escape of one in JSON. Beyond ASCII, it takes letters as well."""


class SeveralEvents(AmbiguousEvent):
    """Several events have the text that was given for an event."""

    def __init__(self, message: str, events: tuple[Event, ...]) -> None:
        super().__init__(message)
        self.events = events
        """The newest of them, the newest last."""


@dataclass(frozen=True, slots=True, repr=False)
class Found(EventAnswer):
    """The answer of `History.find`: a sequence of events."""

    events: tuple[Event, ...]
    """Those found, the newest last."""
    more: bool
    """Whether there are more, before these; with ``first``, after these."""
    interrupted: bool = False
    """Whether the search was ended before it had enough, or had seen all."""

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __getitem__(self, place: int) -> Event:
        return self.events[place]

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        interrupted = {"interrupted": True} if self.interrupted else {}
        return {"events": [event.to_json() for event in self.events], "more": self.more, **interrupted}

    def listed(self) -> Sequence[tuple[str, Event]]:
        """List the events, each with its role."""
        return [(FOUND, event) for event in self.events]

    def summary(self) -> str:
        return count(len(self.events), "event") + (", and there are more" if self.more else "")

    def notes(self) -> Sequence[str]:
        return (
            *(["The search was interrupted: there may be more."] if self.interrupted else ()),
            *(["There are more than these."] if self.more and not self.interrupted else ()),
        )


@dataclass(frozen=True, slots=True)
class Search:
    """What the events must have; all of it."""

    phrases: tuple[tuple[str, ...], ...] = ()
    """Texts as lists of words."""
    errors: bool = False
    """Whether they must report a failure."""
    since: int | None = None
    """The smallest wall time."""
    until: int | None = None
    """The largest wall time."""
    filter: Filter = field(default_factory=Filter)
    """Processes and conditions."""


def phrases_of(text: str | Iterable[str] | None) -> tuple[tuple[str, ...], ...]:
    """Split texts into words. Raises `BadCondition` for a text without any."""
    texts = () if text is None else (text,) if isinstance(text, str) else tuple(text)
    phrases = tuple(tuple(split_words(one)) for one in texts)
    for one, phrase in zip(texts, phrases, strict=True):
        if not phrase:
            raise BadCondition(
                f"{one!r:.60} has no letter and no digit to search for: for other characters, give a condition "
                "(--where) such as name LIKE '%!%'"
            )
    return phrases


def find(
    run: Run, search: Search, count: int, *, oldest: bool = False, on_progress: OnProgress = lambda _: None
) -> Found:
    """Find the newest `count` events, or the oldest, by causal time, and by position where that is the same.

    Whatever the order of the search, the newest event comes last.
    """
    searcher = _Searcher(run, search, oldest)
    # One more than asked for, to tell whether there are more.
    positions, interrupted = searcher.positions(count + 1, on_progress)
    more = len(positions) > count
    kept = positions[:count] if oldest else positions[max(0, len(positions) - count) :]
    return Found(events_at(run, kept), more, interrupted)


class _Searcher:
    """A search in one run."""

    def __init__(self, run: Run, search: Search, oldest: bool) -> None:
        self._run, self._search, self._oldest = run, search, oldest
        words = {word for phrase in search.phrases for word in phrase}
        pairs = {pair for phrase in search.phrases for pair in pairs_of(phrase)}
        self._words = [WantedWord.of(word) for word in sorted(words, key=len, reverse=True)]
        self._words += [WantedWord.of(*pair) for pair in sorted(pairs)]
        self._words += [FAILURE] if search.errors else []
        self._patterns = [_pattern(phrase) for phrase in search.phrases]
        self._texts = ["name", "attributes", *run.manifest.native_columns] if search.phrases else []
        times = ["time"] if search.since is not None or search.until is not None else []
        columns = {*self._texts, *times, *(["error"] if search.errors else []), *search.filter.columns}
        self._columns = sorted(columns)

    def positions(self, count: int, on_progress: OnProgress) -> tuple[list[int], bool]:
        """Find up to `count` positions, oldest first; tell also whether the search was ended early."""
        segments = self._run.segments
        times = segments.first_causal_time if self._oldest else segments.last_causal_time
        order = np.lexsort((segments.first_position, times)).tolist()
        kept: list[tuple[int, int]] = []
        passed = 0
        for number in order if self._oldest else reversed(order):
            if len(kept) == count and self._is_beyond(self._end_of_segment(number), kept):
                break
            groups = self._groups(number) if on_progress(passed) is not False else None
            for group in groups or ():
                kept = sorted([*kept, *self._keys(number, self._rows(number, group, count))])
                kept = kept[:count] if self._oldest else kept[-count:]
                if len(kept) == count and self._is_beyond(self._end_of_group(number, group), kept):
                    break
                if on_progress(passed) is False:
                    groups = None
                    break
            if groups is None:
                return [position for _, position in kept], True
            passed += int(segments.rows[number])
        on_progress(passed)
        return [position for _, position in kept], False

    def _is_beyond(self, key: tuple[int, int], kept: list[tuple[int, int]]) -> bool:
        """Tell whether an event is as old as all that is kept, or older; with `oldest`, as new, or newer."""
        return key >= kept[-1] if self._oldest else key <= kept[0]

    def _end_of_segment(self, number: int) -> tuple[int, int]:
        """Give the newest time and position that a segment can have; with `oldest`, the oldest."""
        segments = self._run.segments
        first = int(segments.first_position[number])
        if self._oldest:
            return int(segments.first_causal_time[number]), first
        return int(segments.last_causal_time[number]), first + int(segments.rows[number]) - 1

    def _end_of_group(self, number: int, group: int) -> tuple[int, int]:
        """Give the time and position of a row group's oldest event; with `oldest`, of its newest. Rows are sorted so."""
        row = group * layout.EVENT_ROWS
        if self._oldest:
            row = min(row + layout.EVENT_ROWS, int(self._run.segments.rows[number])) - 1
        (key,) = self._keys(number, np.array([row], np.int64))
        return key

    def _groups(self, number: int) -> Sequence[int]:
        """List the row groups of a segment that may have such events, in the order of the search."""
        run, search = self._run, self._search
        if search.filter.codes is not None:
            has_events = run.segments.counts_of(number) > 0
            if not np.isin(run.segments.codes_of(number)[has_events], search.filter.codes).any():
                return ()
        # No wall time is after the causal time. A live history may doubt a time, and then has another instead.
        is_believed = run.manifest.stream is None
        if search.since is not None and is_believed and run.segments.last_causal_time[number] < search.since:
            return ()
        groups: Sequence[int] = range(-(-int(run.segments.rows[number]) // layout.EVENT_ROWS))
        index = run.segments.words_file[number]
        if index is not None and self._words:
            groups = run.groups_with(index, self._words)
        if search.since is not None or search.until is not None:
            groups = [group for group in groups if self._is_in_time(number, group)]
        return groups if self._oldest else groups[::-1]

    def _is_in_time(self, number: int, group: int) -> bool:
        """Tell whether a row group has a time between those that are asked for."""
        bounds = self._run.bounds_of(self._run.segments.events_file[number], group, "time")
        since, until = self._search.since, self._search.until
        return bounds is None or ((since is None or bounds[1] >= since) and (until is None or bounds[0] <= until))

    def _rows(self, number: int, group: int, count: int) -> Longs:
        """Find up to `count` rows of a row group: the last ones, or the first. Rows count from the start of the segment."""
        found: list[int] = []
        first = group * layout.EVENT_ROWS
        wanted = self._by_process(number, group)
        if not wanted.any():
            return np.empty(0, np.int64)
        if not self._columns:
            rows = first + np.flatnonzero(wanted)
            return rows[:count] if self._oldest else rows[-count:]
        for table in self._run.search_batches(number, group, self._columns):
            met = self._meets(table, wanted[: len(table)])
            wanted = wanted[len(table) :]
            candidates = np.flatnonzero(met).tolist()
            of_batch: list[int] = []
            for row in candidates if self._oldest else reversed(candidates):
                if self._has_phrases(table, row):
                    of_batch.append(first + row)
                    if len(of_batch) == count:
                        break
            found += sorted(of_batch)
            first += len(table)
        return np.array(found[:count] if self._oldest else found[-count:], np.int64)

    def _by_process(self, number: int, group: int) -> Mask:
        run, codes = self._run, self._search.filter.codes
        start = group * layout.EVENT_ROWS
        count = min(layout.EVENT_ROWS, int(run.segments.rows[number]) - start)
        if codes is None:
            return np.ones(count, np.bool_)
        skeleton_group, place = divmod(start, layout.SKELETON_ROWS)
        local = run.process_group(number, skeleton_group)[place : place + count]
        wanted: Mask = np.isin(run.segments.codes_of(number), codes)[local]
        return wanted

    def _meets(self, table: pa.Table, wanted: Mask) -> Mask:
        """Tell which of the wanted rows meet everything, and may have the texts: `_has_phrases` decides."""
        search = self._search
        met = wanted.copy()
        if search.errors:
            met &= _as_mask(table["error"])
        if search.since is not None:
            met &= _as_mask(pc.greater_equal(table["time"], search.since))
        if search.until is not None:
            met &= _as_mask(pc.less_equal(table["time"], search.until))
        for pattern in self._patterns:
            if met.any():
                met &= np.logical_or.reduce([_may_have(table[name], pattern) for name in self._texts])
        if search.filter.test is not None and met.any():
            met[met] = search.filter.test(table.filter(pa.array(met)).select(list(search.filter.columns)))
        return met

    def _has_phrases(self, table: pa.Table, row: int) -> bool:
        if not self._search.phrases:
            return True
        values = [value for name in self._texts for value in _values(name, table[name], row)]
        return all(has_phrase(values, phrase) for phrase in self._search.phrases)

    def _keys(self, number: int, rows: Longs) -> list[tuple[int, int]]:
        """Give each row its time and its position, by which events of different segments are compared."""
        if not len(rows):
            return []
        run = self._run
        column = layout.PLACED_BY if run.has_column(number, layout.PLACED_BY) else "causal_time"
        positions = rows + int(run.segments.first_position[number])
        times = run.rows(positions, [column])[column].to_pylist()
        # Events without a time come first in their segment.
        start = int(run.segments.first_causal_time[number])
        return [
            (start if time is None else time, position)
            for time, position in zip(times, positions.tolist(), strict=True)
        ]


def _as_mask(column: pa.ChunkedArray) -> Mask:
    mask: Mask = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return mask


def _pattern(phrase: Sequence[str]) -> str:
    r"""Make a regular expression that matches every text with this phrase, and may match others.

    It knows the case of ASCII only: any other character may stand for a letter beyond it. It does not know escapes such
    as ``\u0041``.
    """
    whole = " ".join(phrase)
    start = whole[:MOST_COMPARED]
    end = "(?:$|[^a-z0-9])" if start == whole else ""
    words = (re.sub(r"[^\x00-\x7f]", r"[^\\x00-\\x7f]", word) for word in start.split(" "))
    return f"(?i)(?:^|{_BETWEEN}){f'{_BETWEEN}+'.join(words)}{end}"


def _may_have(column: pa.ChunkedArray, pattern: str) -> Mask:
    """Tell which texts of a column match a pattern, or have characters that it cannot see."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        parts = [_may_have_in(chunk.dictionary, pattern).take(chunk.indices) for chunk in column.chunks]
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        parts = [_may_have_in(chunk, pattern) for chunk in column.chunks]
    else:
        from ledto.sources.parquet.json_text import json_text

        parts = [_may_have_in(json_text(chunk), pattern) for chunk in column.chunks]
    return _as_mask(pa.chunked_array(parts, pa.bool_()))


def _may_have_in(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.or_(pc.match_substring_regex(texts, pattern), pc.match_substring(texts, _ESCAPED))


def _values(name: str, column: pa.ChunkedArray, row: int) -> Iterator[str]:
    """Yield the values of one row of a column in which words are searched."""
    scalar = column[row]
    if not scalar.is_valid:
        return
    if name == "name":
        yield scalar.as_py()
        return
    if name == "attributes":
        yield from json_values(scalar.as_py())
        return
    from ledto.history.word_index import column_texts

    texts, is_json = column_texts(name, column.slice(row, 1).chunk(0))
    yield from json_values(texts[0].as_py()) if is_json else (texts[0].as_py(),)


def where_found(event: Event, phrases: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """List the attributes of an event with a phrase that its name does not have."""
    others = [phrase for phrase in phrases if not has_phrase([event.name or ""], phrase)]
    texts = {name: value if isinstance(value, str) else repr(value) for name, value in event.attributes.items()}
    return tuple(name for name, text in texts.items() if any(has_phrase([text], phrase) for phrase in others))


def worth_asking(run: Run) -> tuple[Event, ...]:
    """Find events to ask about: the last errors, or else the last event."""
    if not run.events_total:
        return ()
    return find(run, Search(errors=True), WORTH_ASKING).events or find(run, Search(), 1).events


def similar_names(run: Run, text: str) -> list[str]:
    """List names of the newest events that are like a text, or share a word with it."""
    first = max(0, run.events_total - NAMES_LOOKED_AT)
    names = [
        name for name in run.rows(np.arange(first, run.events_total), ["name"])["name"].unique().to_pylist() if name
    ]
    folded = {" ".join(split_words(name)): name for name in names}
    words = split_words(text)
    alike = difflib.get_close_matches(" ".join(words), folded, SHOWN, 0.5)
    sharing = [spelling for spelling in folded if set(words) & set(spelling.split())]
    return [folded[spelling] for spelling in dict.fromkeys((*alike, *sharing))][:SHOWN]


def position_by_text(run: Run, text: str, codes: Longs | None, *, newest: bool) -> int | None:
    """Find the only event that has a text, or the newest of several; None if none has it.

    Raises `SeveralEvents` if there are several, and not the newest is asked for.
    """
    words = split_words(text)
    if not words:
        return None
    found = find(run, Search((tuple(words),), filter=Filter(codes)), 1 if newest else SHOWN)
    if not found.events:
        return None
    if newest or len(found) == 1:
        return found.events[-1].position
    several = f"more than {len(found)}" if found.more else str(len(found))
    listed = ", ".join(f"{event.id} ({event.name})" if event.name else event.id for event in found.events)
    raise SeveralEvents(
        f"{several} events have the text {text!r:.60}: name one by its id, such as {listed}; or take the newest (--last)",
        found.events,
    )
