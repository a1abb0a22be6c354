"""Find the event that is asked about, by the id that its source gave, by ``process:seq``, by its position, or by a text.

Also convert between positions, rows of segments, and numbers within a process.
"""

from __future__ import annotations

import difflib

import numpy as np

from ledto.history import layout
from ledto.history.errors import AmbiguousEvent, EventNotFound
from ledto.history.ids import candidate_rows
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.event import Event

SHOWN = 5
"""How many alternatives an error lists."""

Asked = str | int | Event
"""An id, ``process:seq`` or ``@position``; a text; a position; or an event of an earlier answer."""


def locate(run: Run, asked: Asked, *, computation: str | None = None, newest: bool = False) -> int:
    """Find the position of an event. What is no name of an event is searched as a text (`ledto.questions.find`).

    Raises `EventNotFound`, which lists similar names, and `AmbiguousEvent` if several events have the name and
    `computation` does not decide, or if several have the text: `newest` takes the newest of these.
    """
    if isinstance(asked, Event):
        return _checked_position(run, asked.position)
    if isinstance(asked, int):
        return _checked_position(run, asked)
    if asked.startswith("@") and asked[1:].isdecimal():
        return _checked_position(run, int(asked[1:]))
    positions = _by_id(run, asked) if run.manifest.has_ids else []
    counted = _by_process_and_seq(run, asked)
    if positions and counted:
        # An event is called by its process and number only if its source gave it no id.
        ids = run.rows(np.array(counted), ["id"])["id"].to_pylist()
        counted = [position for position, event_id in zip(counted, ids, strict=True) if event_id is None]
    positions = sorted({*positions, *counted})
    if computation is not None:
        positions = [position for position in positions if computation_at(run, position) == computation]
    if len(positions) == 1:
        return positions[0]
    if not positions:
        return _interpret(run, asked, computation, newest)
    names = sorted({computation_at(run, position) for position in positions})
    if len(names) == 1:
        choices = ", ".join(f"@{position}" for position in positions[:SHOWN])
        raise AmbiguousEvent(
            f"{len(positions)} events have the id {asked!r}: name one by its position, such as {choices}"
        )
    raise AmbiguousEvent(
        f"{asked!r} is an event of {len(names)} computations: choose one with computation "
        f"(--computation), such as {', '.join(map(repr, names[:SHOWN]))}"
    )


def _interpret(run: Run, asked: str, computation: str | None, newest: bool) -> int:
    """Find an event by another reading of the name: another spelling, a span, a line, a text. Raises as `locate` does."""
    from ledto.questions import ids as meanings

    for spelling, line in meanings.other_spellings(asked):
        candidates = _by_id(run, spelling) if run.manifest.has_ids else []
        if line is not None:
            lines = run.rows(np.array(candidates, np.int64), ["line"])["line"].to_pylist() if candidates else []
            candidates = [
                position for position, event_line in zip(candidates, lines, strict=True) if event_line == line
            ]
        if len(candidates) == 1 and (computation is None or computation_at(run, candidates[0]) == computation):
            return candidates[0]
    if computation is None and len(positions := meanings.on_line(run, asked)):
        if len(positions) == 1 or newest:
            return int(positions[-1])
        raise AmbiguousEvent(meanings.describe_choices(run, asked, positions))
    if run.manifest.ledger.quarantined and (reason := meanings.why_quarantined(run, asked, *_split(asked))):
        raise EventNotFound(f"the report of {asked!r} is quarantined: {reason}; see ledto quarantine")
    if (position := _by_text(run, asked, computation, newest)) is not None:
        return position
    raise EventNotFound(_not_found(run, asked, computation))


def _by_text(run: Run, asked: str, computation: str | None, newest: bool) -> int | None:
    """Find the event with a text; None if there is none. A process's name is no text, unless the newest is asked for."""
    if not newest and len(run.processes.named(_split(asked)[0])):
        return None
    from ledto.questions.find import position_by_text

    codes = None if computation is None else run.processes.of_computation(computation)
    return position_by_text(run, asked, codes, newest=newest)


def row_of(run: Run, position: int) -> tuple[int, int]:
    """Find the segment of a position, and the row within it."""
    number = run.segments.segment_of(position)
    return number, position - int(run.segments.first_position[number])


def code_at(run: Run, position: int) -> int:
    """Find the global code of the process of an event."""
    number, row = row_of(run, position)
    group, place = divmod(row, layout.SKELETON_ROWS)
    return int(run.segments.codes_of(number)[run.process_group(number, group)[place]])


def codes_at(run: Run, positions: Longs) -> Longs:
    """Do as `code_at` for many positions. Each row group is read once."""
    codes = np.empty(len(positions), np.int64)
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    rows = positions - run.segments.first_position[numbers]
    groups = rows // layout.SKELETON_ROWS
    for number in np.unique(numbers).tolist():
        for group in np.unique(groups[numbers == number]).tolist():
            chosen = np.flatnonzero((numbers == number) & (groups == group))
            local = run.process_group(number, group)[rows[chosen] - group * layout.SKELETON_ROWS]
            codes[chosen] = run.segments.codes_of(number)[local]
    return codes


def index_at(run: Run, position: int) -> int:
    """Find the number of an event within its process, from 1."""
    number, row = row_of(run, position)
    last, place = divmod(row, layout.SKELETON_ROWS)
    local = run.process_group(number, last)[place]
    within = sum(int((run.process_group(number, group) == local).sum()) for group in range(last))
    within += int((run.process_group(number, last)[: place + 1] == local).sum())
    return int(run.segments.before_of(number)[local]) + within


def indices_at(run: Run, positions: Longs) -> Longs:
    """Do as `index_at` for many positions. Each row group is read once."""
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    rows = positions - run.segments.first_position[numbers]
    indices = np.empty(len(positions), np.int64)
    for number in np.unique(numbers).tolist():
        chosen = np.flatnonzero(numbers == number)
        groups = rows[chosen] // layout.SKELETON_ROWS
        counted = run.segments.before_of(number).copy()
        for group in range(int(groups.max()) + 1):
            process = run.process_group(number, group)
            for event in chosen[groups == group]:
                place = rows[event] - group * layout.SKELETON_ROWS
                indices[event] = counted[process[place]] + np.count_nonzero(process[: place + 1] == process[place])
            counted += np.bincount(process, minlength=len(counted))
    return indices


def position_of_index(run: Run, code: int, index: int) -> int:
    """Find the position of an event by its process and its number within the process, from 1."""
    entries = run.segments.entries_of(code)
    first = run.segments.before[entries]
    entry = int(entries[np.flatnonzero((first < index) & (index <= first + run.segments.counts[entries]))[0]])
    number = run.segments.segment_of_entry(entry)
    local = entry - int(run.segments.offsets[number])
    remaining = index - int(run.segments.before[entry])
    group = 0
    while True:
        rows = np.flatnonzero(run.process_group(number, group) == local)
        if remaining <= len(rows):
            return int(run.segments.first_position[number]) + group * layout.SKELETON_ROWS + int(rows[remaining - 1])
        remaining -= len(rows)
        group += 1


def computation_at(run: Run, position: int) -> str:
    """Find the computation of an event."""
    return run.processes.computation_of(code_at(run, position))


def _checked_position(run: Run, position: int) -> int:
    if not 0 <= position < run.events_total:
        raise EventNotFound(f"there is no position {position}: positions are 0 to {run.events_total - 1}")
    return position


def _by_id(run: Run, asked: str) -> list[int]:
    """Find the positions of the events that sources gave this id."""
    positions: list[int] = []
    for number in range(len(run.segments)):
        index = run.ids_index(number)
        first = int(run.segments.first_position[number])
        positions += [
            first + row
            for row in (candidate_rows(index, asked) if index is not None else ())
            if run.events(number, ["id"], row, row + 1)["id"][0].as_py() == asked
        ]
    return positions


def _by_process_and_seq(run: Run, asked: str) -> list[int]:
    name, seq = _split(asked)
    if seq is None:
        return []
    positions = (_position_of_seq(run, int(code), seq) for code in run.processes.named(name))
    return [position for position in positions if position is not None]


def _split(asked: str) -> tuple[str, int | None]:
    """Split ``process:seq``; without a number, return the whole name and None."""
    name, _, number = asked.rpartition(":")
    return (name, int(number)) if number.lstrip("-").isdecimal() and number.isascii() else (asked, None)


def _position_of_seq(run: Run, code: int, seq: int) -> int | None:
    """Find the position of the event of a process with this number of its source; None if there is none."""
    entries = run.segments.entries_of(code)
    entries = entries[run.segments.counts[entries] > 0]
    first_seq = run.segments.first_seq[entries]
    place = int(np.searchsorted(first_seq, seq, side="right")) - 1
    if place < 0:
        return None
    if run.processes.dense_seq[code]:
        index = seq - int(first_seq[0]) + 1
        return position_of_index(run, code, index) if index <= run.processes.events[code] else None
    entry = int(entries[place])
    number = run.segments.segment_of_entry(entry)
    rows = np.flatnonzero(run.process_column(number) == entry - run.segments.offsets[number])
    seqs = run.events(number, ["seq"], 0, int(run.segments.rows[number]))["seq"].to_numpy()[rows]
    at = int(np.searchsorted(seqs, seq))
    return int(run.segments.first_position[number] + rows[at]) if at < len(seqs) and seqs[at] == seq else None


def unknown_name(run: Run, what: str, name: str) -> str:
    """Say that there is no such computation or process, and list similar ones."""
    names = run.processes.table[what].unique().to_pylist()
    similar = difflib.get_close_matches(name, names, SHOWN) or sorted(names)[:SHOWN]
    return f"there is no {what} {name!r}; there are {len(names)}, such as {', '.join(map(repr, similar))}"


def _not_found(run: Run, asked: str, computation: str | None) -> str:
    """Say why there is no such event, and what to ask for instead."""
    from ledto.questions.find import similar_names

    where = "" if computation is None else f" of computation {computation!r}"
    name, seq = _split(asked)
    codes = run.processes.named(name)
    if computation is not None:
        is_of_computation = [run.processes.computation_of(int(code)) == computation for code in codes]
        codes = codes[np.array(is_of_computation, np.bool_)]
        if computation not in run.processes.computation.unique().to_pylist():
            return unknown_name(run, "computation", computation)
    if seq is not None and len(codes):
        spans = [_span_of_seq(run, int(code)) for code in codes if run.processes.events[code]]
        holes = "" if all(run.processes.dense_seq[codes]) else ", with gaps: reports of it are missing"
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        quarantined = run.manifest.ledger.quarantined
        hint = "; its report may be quarantined: see ledto quarantine" if quarantined else ""
        return f"there is no event {seq} of process {name!r}{where}: it has {_numbered(low, high)}{holes}{hint}"
    if len(codes):
        spans = [_span_of_seq(run, int(code)) for code in codes if run.processes.events[code]]
        first, last = min(span[0] for span in spans), max(span[1] for span in spans)
        which = (
            f"its event is {name}:{last}"
            if first == last
            else f"name one of its events, {name}:{first} to {name}:{last}"
        )
        return f"{name!r}{where} is a process: {which}"
    by_id = "an id of the source, or as " if run.manifest.has_ids else ""
    if seq is None and (names := similar_names(run, asked)):
        return (
            f"no event{where} goes by {asked!r}, or has that text: name it by {by_id}PROCESS:SEQ; there are such names of "
            f"events as {', '.join(map(repr, names))}"
        )
    return (
        f"no event{where} goes by {asked!r}, or has that text: name it by {by_id}PROCESS:SEQ; "
        f"{unknown_name(run, 'process', name)}"
    )


def _numbered(low: int, high: int) -> str:
    return f"event {low}" if low == high else f"events {low} to {high}"


def _span_of_seq(run: Run, code: int) -> tuple[int, int]:
    """Find the first and last number that the source of a process gave."""
    last = position_of_index(run, code, int(run.processes.events[code]))
    number, row = row_of(run, last)
    entries = run.segments.entries_of(code)
    first = int(run.segments.first_seq[entries[run.segments.counts[entries] > 0][0]])
    return first, int(run.events(number, ["seq"], row, row + 1)["seq"][0].as_py())
