"""Finds the event that is asked about: by its source's id, by ``process:seq``, or by its position."""

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
"""Alternatives that an error lists."""

Asked = str | int | Event
"""An id, ``process:seq`` or ``@position``; a position; or an event of an earlier answer."""


def locate(run: Run, asked: Asked, *, computation: str | None = None) -> int:
    """The position of the event.

    Raises `EventNotFound`, which names what is near, and `AmbiguousEvent` where several computations have such an
    event and `computation` does not choose.
    """
    if isinstance(asked, Event):
        return _checked_position(run, asked.position)
    if isinstance(asked, int):
        return _checked_position(run, asked)
    if asked.startswith("@") and asked[1:].isdecimal():
        return _checked_position(run, int(asked[1:]))
    found = _by_id(run, asked) if run.manifest.has_ids else []
    counted = _by_process_and_seq(run, asked)
    if found and counted:
        # An event goes by its process and number only if its source gave it no id.
        ids = run.rows(np.array(counted), ["id"])["id"].to_pylist()
        counted = [position for position, own in zip(counted, ids, strict=True) if own is None]
    found = sorted({*found, *counted})
    if computation is not None:
        found = [position for position in found if computation_at(run, position) == computation]
    if len(found) == 1:
        return found[0]
    if not found:
        return _meant(run, asked, computation)
    names = sorted({computation_at(run, position) for position in found})
    if len(names) == 1:
        choices = ", ".join(f"@{position}" for position in found[:SHOWN])
        raise AmbiguousEvent(f"{len(found)} events have the id {asked!r}: name one by its position, such as {choices}")
    raise AmbiguousEvent(
        f"{asked!r} is an event of {len(names)} computations: choose one with computation "
        f"(--computation), such as {', '.join(map(repr, names[:SHOWN]))}"
    )


def _meant(run: Run, asked: str, computation: str | None) -> int:
    """The event that a name is meant for which is no event's own; raises as `locate` does."""
    from ledto.questions import ids as meanings

    for spelling, line in meanings.other_spellings(asked):
        found = _by_id(run, spelling) if run.manifest.has_ids else []
        if line is not None:
            lines = run.rows(np.array(found, np.int64), ["line"])["line"].to_pylist() if found else []
            found = [position for position, own in zip(found, lines, strict=True) if own == line]
        if len(found) == 1 and (computation is None or computation_at(run, found[0]) == computation):
            return found[0]
    if computation is None and len(on_it := meanings.on_line(run, asked)):
        if len(on_it) == 1:
            return int(on_it[0])
        raise AmbiguousEvent(meanings.choices(run, asked, on_it))
    said = _not_found(run, asked, computation)
    if run.manifest.ledger.quarantined and (why := meanings.set_aside(run, asked, *_split(asked))):
        said = f"the report of {asked!r} was set aside: {why}; see ledto quarantine"
    raise EventNotFound(said)


def row_of(run: Run, position: int) -> tuple[int, int]:
    """The segment of a position and the row within it."""
    number = run.segments.segment_of(position)
    return number, position - int(run.segments.first_position[number])


def code_at(run: Run, position: int) -> int:
    """The process of the event at a position, by its global code."""
    number, row = row_of(run, position)
    group, place = divmod(row, layout.SKELETON_ROWS)
    return int(run.segments.codes_of(number)[run.process_group(number, group)[place]])


def codes_at(run: Run, positions: Longs) -> Longs:
    """The processes of the events at these positions, by global codes; each row group is read once."""
    found = np.empty(len(positions), np.int64)
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    rows = positions - run.segments.first_position[numbers]
    groups = rows // layout.SKELETON_ROWS
    for number in np.unique(numbers).tolist():
        for group in np.unique(groups[numbers == number]).tolist():
            mine = np.flatnonzero((numbers == number) & (groups == group))
            local = run.process_group(number, group)[rows[mine] - group * layout.SKELETON_ROWS]
            found[mine] = run.segments.codes_of(number)[local]
    return found


def index_at(run: Run, position: int) -> int:
    """The number of the event at a position within its process, from 1."""
    number, row = row_of(run, position)
    last, place = divmod(row, layout.SKELETON_ROWS)
    local = run.process_group(number, last)[place]
    within = sum(int((run.process_group(number, group) == local).sum()) for group in range(last))
    within += int((run.process_group(number, last)[: place + 1] == local).sum())
    return int(run.segments.before_of(number)[local]) + within


def indices_at(run: Run, positions: Longs) -> Longs:
    """`index_at` of many positions; each row group is read once."""
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    rows = positions - run.segments.first_position[numbers]
    found = np.empty(len(positions), np.int64)
    for number in np.unique(numbers).tolist():
        mine = np.flatnonzero(numbers == number)
        groups = rows[mine] // layout.SKELETON_ROWS
        counted = run.segments.before_of(number).copy()
        for group in range(int(groups.max()) + 1):
            process = run.process_group(number, group)
            for each in mine[groups == group]:
                place = rows[each] - group * layout.SKELETON_ROWS
                found[each] = counted[process[place]] + np.count_nonzero(process[: place + 1] == process[place])
            counted += np.bincount(process, minlength=len(counted))
    return found


def position_of_index(run: Run, code: int, index: int) -> int:
    """The position of a process's event by its number within the process, from 1."""
    entries = run.segments.entries_of(code)
    first = run.segments.before[entries]
    entry = int(entries[np.flatnonzero((first < index) & (index <= first + run.segments.counts[entries]))[0]])
    number = run.segments.segment_of_entry(entry)
    local = entry - int(run.segments.offsets[number])
    left = index - int(run.segments.before[entry])
    group = 0
    while True:
        rows = np.flatnonzero(run.process_group(number, group) == local)
        if left <= len(rows):
            return int(run.segments.first_position[number]) + group * layout.SKELETON_ROWS + int(rows[left - 1])
        left -= len(rows)
        group += 1


def computation_at(run: Run, position: int) -> str:
    """The computation of the event at a position."""
    return run.processes.computation_of(code_at(run, position))


def _checked_position(run: Run, position: int) -> int:
    if not 0 <= position < run.events_total:
        raise EventNotFound(f"positions run from 0 to {run.events_total - 1}, and {position} is none of them")
    return position


def _by_id(run: Run, asked: str) -> list[int]:
    found: list[int] = []
    for number in range(len(run.segments)):
        index = run.ids_index(number)
        first = int(run.segments.first_position[number])
        found += [
            first + row
            for row in (candidate_rows(index, asked) if index is not None else ())
            if run.events(number, ["id"], row, row + 1)["id"][0].as_py() == asked
        ]
    return found


def _by_process_and_seq(run: Run, asked: str) -> list[int]:
    name, seq = _split(asked)
    if seq is None:
        return []
    found = (_position_of_seq(run, int(code), seq) for code in run.processes.named(name))
    return [position for position in found if position is not None]


def _split(asked: str) -> tuple[str, int | None]:
    name, _, number = asked.rpartition(":")
    return (name, int(number)) if number.lstrip("-").isdecimal() and number.isascii() else (asked, None)


def _position_of_seq(run: Run, code: int, seq: int) -> int | None:
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
    """That there is no such computation or process, and what there is."""
    known = run.processes.table[what].unique().to_pylist()
    near = difflib.get_close_matches(name, known, SHOWN) or sorted(known)[:SHOWN]
    return f"there is no {what} {name!r}; there are {len(known)}, such as {', '.join(map(repr, near))}"


def _not_found(run: Run, asked: str, computation: str | None) -> str:
    where = "" if computation is None else f" of computation {computation!r}"
    name, seq = _split(asked)
    codes = run.processes.named(name)
    if computation is not None:
        mine = np.array([run.processes.computation_of(int(code)) == computation for code in codes], np.bool_)
        codes = codes[mine]
        if computation not in run.processes.computation.unique().to_pylist():
            return unknown_name(run, "computation", computation)
    if seq is not None and len(codes):
        spans = [_span_of_seq(run, int(code)) for code in codes if run.processes.events[code]]
        holes = "" if all(run.processes.dense_seq[codes]) else ", with gaps: reports of it are missing"
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        aside = run.manifest.ledger.quarantined
        hint = "; it may be among the reports that were set aside: see ledto quarantine" if aside else ""
        return f"process {name!r}{where} has {_numbered(low, high)}{holes}, and {seq} is none of them{hint}"
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
    return f"no event{where} goes by {asked!r}: name it by {by_id}PROCESS:SEQ; {unknown_name(run, 'process', name)}"


def _numbered(low: int, high: int) -> str:
    return f"event {low}" if low == high else f"events {low} to {high}"


def _span_of_seq(run: Run, code: int) -> tuple[int, int]:
    last = position_of_index(run, code, int(run.processes.events[code]))
    number, row = row_of(run, last)
    entries = run.segments.entries_of(code)
    first = int(run.segments.first_seq[entries[run.segments.counts[entries] > 0][0]])
    return first, int(run.events(number, ["seq"], row, row + 1)["seq"][0].as_py())
