"""Rows of spans become rows of lines, which the solver takes: processes by name, numbers, and causes by row.

Works on whole computations: what a span has to do with others is known only where all spans of a trace are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from whence.causality.instances import Instances, Lines, string_lines
from whence.causality.ordering import NO_TIME
from whence.events.schema import ANSWERS, AWAITS, END, SPAN, START
from whence.history.report_columns import BETWEEN, numbered_names

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

SHARED = "/server"
"""After the key of an instance that shares the id of the one it was started from, as Zipkin's servers may."""
OF_TRACE = ":"
"""Between a trace and a span of it, in the keys of instances whose computation holds several traces."""


def has_instances(rows: pa.Table) -> bool:
    """Whether some row belongs to a span."""
    return "instance_key" in rows.column_names and rows["instance_key"].null_count < len(rows)


def with_lines(rows: pa.Table) -> pa.Table:
    """The same rows, in which those of computations with spans stand on lines.

    Their ``process`` names the line: the process they came with or, where it did several things at once, that name with a
    number after it. ``clock_name`` keeps whose clock it was, ``seq`` is the number in the line, ``causes`` lists the rows
    that precede besides, and ``missing`` tells of a parent, or of the span of a log record, that is not there. Copies of
    a start or an end share line and number. The result does not depend on the order of the rows.
    """
    if not has_instances(rows):
        return rows
    rows = rows.combine_chunks()
    spans = pc.unique(rows.filter(pc.is_valid(rows["instance_key"]))["computation"])
    inside = pc.indices_nonzero(pc.is_in(rows["computation"], value_set=spans)).to_numpy().astype(np.int64)
    chosen = _Chosen(rows.take(pa.array(inside)))
    lines = string_lines(chosen.instances)
    return _replaced(rows, inside, chosen, lines)


class _Chosen:
    """Rows of computations with spans, as arrays; the kernel sees each event once."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        # By number: no name can then be taken for another with a key after it.
        computation = _text(rows, "computation")
        computation = numbered_names(computation, sorted(pc.unique(computation).to_pylist()))
        keys = _joined(computation, pc.fill_null(_text(rows, "instance_key"), "")).dictionary_encode()
        processes = _joined(computation, _text(rows, "process")).dictionary_encode()
        self._keys: Any = keys.dictionary
        split = [str(name).partition(BETWEEN) for name in processes.dictionary.to_pylist()]
        self.processes = [(int(number), name) for number, _, name in split]
        """Each with the number of its computation."""
        self._computation = computation
        key, self.process = _ranked(keys), _codes(processes)
        phase = pc.fill_null(_text(rows, "instance_phase"), "")
        self._is_start, is_end = (_flags(pc.is_in(phase, value_set=pa.array(names))) for names in ([START], _ENDS))
        time = pc.fill_null(rows["time"], NO_TIME).to_numpy().astype(np.int64)
        self._number_instances(key, time)
        self._time, order = self._ordered(time, is_end)
        self._drop_copies(order, is_end)
        self._key_of_instance = np.empty(len(self._first_time), np.int64)
        self._key_of_instance[self._instance] = _codes(keys)
        self.missing: dict[int, str] = {}
        """By row."""
        self.instances = self._described(is_end, phase)

    def _number_instances(self, key: Longs, time: Longs) -> None:
        """Number what one process did for one span, by computation and time of its start."""
        pairs, instance = np.unique(key * len(self.processes) + self.process, return_inverse=True)
        first = np.full(len(pairs), np.iinfo(np.int64).max)
        np.minimum.at(first, instance[self._is_start], time[self._is_start])
        unstarted = np.full(len(pairs), np.iinfo(np.int64).max)
        np.minimum.at(unstarted, instance, time)
        self._begun = np.zeros(len(pairs), np.bool_)
        self._begun[instance[self._is_start]] = True
        first = np.where(self._begun, first, unstarted)
        order = np.lexsort((pairs, first))
        number = np.empty(len(pairs), np.int64)
        number[order] = np.arange(len(pairs))
        self._instance = number[instance]
        self._first_time, self._begun = first[order], self._begun[order]

    def _ordered(self, time: Longs, is_end: Flags) -> tuple[Longs, Longs]:
        """Times that no row of an instance contradicts, and the rows by instance and place in it."""
        instance = self._instance
        time = np.maximum(time, self._first_time[instance])
        end = np.full(len(self._first_time), np.iinfo(np.int64).max)
        np.minimum.at(end, instance[is_end], time[is_end])
        time = np.where(is_end, end[instance], np.where(self._is_start, self._first_time[instance], time))
        file, place, name = (_rank_of(self.rows, column) for column in ("file", "place", "name"))
        keys = (name, place, file, is_end, time, ~self._is_start, instance)
        order = np.lexsort(keys)
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for each in keys:
            same &= each[order][1:] == each[order][:-1]
        if same.any():
            # Rows that agree in all of this are told apart by what else they say, or not at all.
            said = np.zeros(len(order), np.int64)
            tied = np.unique(np.concatenate((order[1:][same], order[:-1][same])))
            said[tied] = _ranked(_text(self.rows, "attributes").take(pa.array(tied)).dictionary_encode())
            order = np.lexsort((said, *keys))
        return time, order

    def _drop_copies(self, order: Longs, is_end: Flags) -> None:
        """Keep the first row of those that report the same; the kernel's row of each row is `event`."""
        instance = self._instance[order]
        kept = np.ones(len(order), np.bool_)
        same = self._same_moments(order)
        kept[[at for at, _ in same]] = False
        for flags in (self._is_start, is_end):
            marked = np.flatnonzero(flags[order])
            kept[marked[np.diff(instance[marked], prepend=-1) == 0]] = False
        self.first_row = order[kept]
        self.event = np.empty(len(order), np.int64)
        self.event[self.first_row] = np.arange(len(self.first_row))
        for flags in (self._is_start, is_end):
            marked = np.flatnonzero(flags[order])
            event_of = np.full(len(self._first_time), -1, np.int64)
            firsts = marked[kept[marked]]
            event_of[instance[firsts]] = self.event[order[firsts]]
            self.event[order[marked]] = event_of[instance[marked]]
        for again, first in same:
            self.event[order[again]] = self.event[order[first]]

    def _same_moments(self, order: Longs) -> list[tuple[int, int]]:
        """Places in the order of what a span recorded, in a report that is not its first, and of the same in an earlier one.

        The nth of one report that say the same is the nth of another. Log records are reports of their own: two that say
        the same are two.
        """
        reported = np.bincount(self._instance[self._is_start], minlength=len(self._first_time))
        chosen = np.flatnonzero((reported > 1)[self._instance[order]])
        if not len(chosen):
            return []
        told = self.rows.take(pa.array(order[chosen]))
        # Attributes are not among the columns where no row of the run has any.
        attributes = _text(told, "attributes")
        taken = told.select(["file", "place", "time", "name"]).append_column("attributes", attributes).to_pylist()
        spans = {
            (instance, row["file"], row["place"])
            for instance, row, is_start in zip(
                self._instance[order[chosen]].tolist(), taken, self._is_start[order[chosen]].tolist(), strict=True
            )
            if is_start
        }
        first: dict[tuple[Any, ...], int] = {}
        seen: Counter[tuple[Any, ...]] = Counter()
        found = []
        inside = ~_flags(pc.is_valid(_text(self.rows, "instance_phase")))[order[chosen]]
        for at, row in zip(
            chosen[inside].tolist(), [row for row, is_in in zip(taken, inside, strict=True) if is_in], strict=True
        ):
            report = (int(self._instance[order[at]]), row["file"], row["place"])
            if report not in spans:
                continue
            said = (row["time"], row.get("name"), row.get("attributes"))
            seen[*report, *said] += 1
            key = (report[0], *said, seen[*report, *said])
            if key in first:
                found.append((at, first[key]))
            else:
                first[key] = at
        return found

    def _described(self, is_end: Flags, phase: Any) -> Instances:
        rows, count = self.first_row, len(self._first_time)
        instance = self._instance[rows]
        starts = np.searchsorted(instance, np.arange(count + 1)).astype(np.int64)
        end_row = np.full(count, -1, np.int64)
        ends = np.flatnonzero(is_end[rows])
        end_row[instance[ends]] = ends
        answers, awaits = (np.zeros(count, np.bool_) for _ in range(2))
        for flags, name in ((answers, ANSWERS), (awaits, AWAITS)):
            is_so = _flags(pc.equal(phase, name))[rows[ends]]
            flags[instance[ends[is_so]]] = True
        process = np.ascontiguousarray(self.process[rows[starts[:-1]]])
        return Instances(
            starts,
            np.ascontiguousarray(self._time[rows]),
            process,
            self._parents(starts, process),
            self._begun,
            end_row,
            answers,
            awaits,
        )

    def _parents(self, starts: Longs, process: Longs) -> Longs:
        """By instance: what it was started from, nearest first: in its own process, then elsewhere."""
        first = self.first_row[starts[:-1]]
        named = _text(self.rows, "instance_parent").take(pa.array(first))
        computation = self._computation.take(pa.array(first))
        traces = _text(self.rows, "computation")
        home = np.full(len(self._keys), -1, np.int64)
        begun = np.flatnonzero(self._begun)[::-1]
        home[self._key_of_instance[begun]] = begun
        width = len(self.processes)
        begun_pairs = self._key_of_instance[begun] * width + process[begun]
        by_pair = np.argsort(begun_pairs, kind="stable")
        begun_pairs, begun = begun_pairs[by_pair], begun[by_pair]

        def at_home(key: Longs) -> Longs:
            return np.where(key >= 0, home[key], -1)

        def beside(key: Longs) -> Longs:
            pair = key * width + process
            at = np.minimum(np.searchsorted(begun_pairs, pair), max(len(begun_pairs) - 1, 0))
            is_there = (key >= 0) & (begun_pairs[at] == pair) if len(begun_pairs) else key < -1
            return np.where(is_there, begun[at] if len(begun) else -1, -1)

        plain, shared = (
            _codes_in(_joined(computation, pc.binary_join_element_wise(named, end, "")), self._keys)
            for end in ("", SHARED)
        )
        itself = np.arange(len(first))
        found = np.full(len(first), -1, np.int64)
        for candidate in (beside(shared), beside(plain), at_home(plain), at_home(shared)):
            found = np.where((found < 0) & (candidate != itself), candidate, found)
        # What a process reports of a span that another process started follows that start.
        stray = ~self._begun & ~_flags(pc.equal(pc.fill_null(_text(self.rows, "instance_key"), ""), ""))[first]
        found = np.where(stray, at_home(self._key_of_instance), found)
        is_named = _flags(pc.is_valid(named))
        for at in np.flatnonzero((found < 0) & (is_named | stray)).tolist():
            key = named[at].as_py() if is_named[at] else self.rows["instance_key"][int(first[at])].as_py()
            trace, _, span = f"{traces[int(first[at])]}{OF_TRACE}{key}".rpartition(OF_TRACE)
            self.missing[int(first[at])] = f"{SPAN}{trace.rpartition(OF_TRACE)[2]}/{span}"
        return np.where(found == itself, -1, found)


_ENDS = [END, ANSWERS, AWAITS]


def _replaced(rows: pa.Table, inside: Longs, chosen: _Chosen, lines: Lines) -> pa.Table:
    """The table with the columns that say where rows stand."""
    event = chosen.event
    names = pa.array(_line_names(lines.process, chosen.processes), pa.string())
    process = pa.DictionaryArray.from_arrays(pa.array(lines.line[event].astype(np.int32)), names).cast(pa.string())
    lengths = np.diff(lines.offsets)[event]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    at = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - lines.offsets[event], lengths)
    causes = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(inside[chosen.first_row[lines.causes[at]]])
    )
    told = pa.array([chosen.missing.get(row) for row in range(len(event))], pa.string())
    clock = pc.coalesce(_text(chosen.rows, "clock_name"), _text(chosen.rows, "process"))
    placed = {"process": process, "seq": pa.array(lines.nth[event]), "clock_name": clock}
    placed |= {"causes": causes, "missing": told}
    where = np.full(len(rows), -1, np.int64)
    where[inside] = np.arange(len(inside))
    everywhere = len(inside) == len(rows)
    for name, column in placed.items():
        moved = column.take(pa.array(where, mask=where < 0))
        if not everywhere and name in rows.column_names and name != "missing":
            moved = pc.if_else(pa.array(where >= 0), moved, rows[name].cast(moved.type))
        if name in rows.column_names:
            rows = rows.set_column(rows.column_names.index(name), name, moved)
        else:
            rows = rows.append_column(name, moved)
    return rows


def _line_names(lines: Longs, processes: Sequence[tuple[int, str]]) -> list[str]:
    """Of each line: its process's name, with a number from the second of a process on. Processes have a computation."""
    marks: dict[int, str] = {}
    for computation, name in processes:
        mark = marks.setdefault(computation, "~")
        marks[computation] = max(mark, "~" * (1 + max(map(len, re.findall("~+", name)), default=0)))
    seen: dict[int, int] = {}
    found = []
    for process in lines.tolist():
        seen[process] = count = seen.get(process, 0) + 1
        computation, name = processes[process]
        found.append(name if count == 1 else f"{name}{marks[computation]}{count}")
    return found


def _text(rows: pa.Table, name: str) -> Any:
    if name not in rows.column_names:
        return pa.nulls(len(rows), pa.string())
    column = rows[name].cast(pa.string()).combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _joined(first: Any, second: Any) -> Any:
    return pc.binary_join_element_wise(first, second, BETWEEN)


def _codes(encoded: Any) -> Longs:
    found: Longs = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _codes_in(values: Any, dictionary: Any) -> Longs:
    found: Longs = pc.fill_null(pc.index_in(values, value_set=dictionary), -1).to_numpy().astype(np.int64)
    return found


def _ranked(encoded: Any) -> Longs:
    """Numbers in the order of the texts."""
    if not len(encoded.dictionary):
        return np.zeros(len(encoded), np.int64)
    rank = pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy().astype(np.int64)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    found: Longs = np.where(codes >= 0, rank[codes], 0)
    return found


def _rank_of(rows: pa.Table, name: str) -> Longs:
    if name in rows.column_names and pa.types.is_integer(rows[name].type):
        found: Longs = pc.fill_null(rows[name], -1).to_numpy().astype(np.int64)
        return found
    return _ranked(_text(rows, name).dictionary_encode())


def _flags(values: Any) -> Flags:
    found: Flags = values.to_numpy(zero_copy_only=False).astype(np.bool_)
    return found
