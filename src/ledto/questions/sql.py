"""A history as SQL views for DuckDB and Spark, over the files of the committed run.

- ``events``: one row per event, with the stored columns, ``position``, ``message`` (the key that it receives or sends), and
  a column for each attribute, in the type of its values (`ledto.history.attribute_types`).
- ``causes``: one row per step, with ``effect`` and ``cause`` as positions, and ``kind`` in the words of `PathStep.kind`:
  ``message`` and ``line`` are recorded (``line`` includes starts and joins), ``answer`` is assumed, ``tie`` is possible.
  That an event follows another in its ``process`` has no row; in a history without lines that, too, is recorded.
- ``deliveries``: ``policy``, ``position``, ``at``, ``waited``, ``late``.
- ``quarantine``: one row per quarantined report. ``processes``: one row per process.

Names of columns are not case-sensitive. Attributes whose names differ only in case share a column, which shows the first
one that an event has. An attribute with an empty name, or that of another column, has no column. The column
``attributes`` has all of them, as JSON. `ledto.questions.query` lets queries name them without quotes, and reads them by the
rule of conditions.

DuckDB and Spark read the files without verifying checksums. So the files behind the views are verified when the views are
made; a damaged file raises `DamagedHistory`.

HAZARD: views name the files of one run. When a newer run replaces it, make them again.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from functools import cache
from typing import ClassVar

import duckdb
import numpy as np

from ledto.folders import temporary_folder
from ledto.history import layout
from ledto.history.attribute_types import BOOLEAN, INTEGER, NUMBER, TEXT
from ledto.history.damage import require_intact
from ledto.history.line_fronts import rows_not_started
from ledto.history.recorded import line_crossings
from ledto.history.run import Run, open_run
from ledto.history.store import Store
from ledto.questions.names import Attribute, Names, quote_text
from ledto.questions.order import delivery_files
from ledto.questions.where import column_types

DIALECTS = ("duckdb", "spark")
_PLAIN = re.compile(r"[\w.:/-]+(?: [\w.:/-]+)*")
"""Names that need no escape in a JSON path of Spark."""
VIEWS = ("events", "causes", "deliveries", "quarantine", "processes")


def connect(path: str | os.PathLike[str], *, only: Collection[str] = VIEWS) -> duckdb.DuckDBPyConnection:
    """Connect to an in-memory DuckDB that has the views of the history at a path or URI, or only some of them.

    Reads and verifies the files behind these views first. What does not fit into memory goes below TMPDIR.
    """
    connection = duckdb.connect(config={"temp_directory": _overflow_folder()})
    connection.execute(views(path, only=only))
    return connection


@cache
def _overflow_folder() -> str:
    """Make a private folder for what does not fit into memory; empty, which means none, where nothing can be written.

    DuckDB would use a folder below the current one, which everybody could read, or which cannot be made.
    """
    try:
        return str(temporary_folder("ledto-sql"))
    except OSError:
        return ""


def views(path: str | os.PathLike[str], *, dialect: str = "duckdb", only: Collection[str] = VIEWS) -> str:
    """Make the statements that create the views, or only some of them. Each ends with a semicolon.

    Raises `DamagedHistory` if a file behind them is not as it was written.
    """
    return views_of(open_run(Store(path)), dialect=dialect, only=only)


def views_of(run: Run, *, dialect: str = "duckdb", only: Collection[str] = VIEWS) -> str:
    """Do as `views` for a run that is open."""
    if dialect not in DIALECTS:
        raise ValueError(f"there are the dialects {', '.join(DIALECTS)}, not {dialect!r}")
    selects = _Spark(run) if dialect == "spark" else _DuckDB(run)
    by_name = {name: getattr(selects, name)() for name in VIEWS if name in only}
    folder = layout.run_folder(run.name)
    require_intact(run.store, [f"{folder}/{name}" for name in sorted(selects.files)])
    create = f"CREATE OR REPLACE {'TEMPORARY ' if dialect == 'spark' else ''}VIEW"
    return "\n".join(f"{create} {name} AS\n{select};" for name, select in by_name.items())


def names_of(run: Run) -> Names:
    """Give the columns and attributes that a query of ``events`` may name."""
    return Names({**column_types(run.event_schema()), "position": INTEGER}, run.manifest.attributes)


def views_in(query: str) -> Collection[str]:
    """List the views that a query names; all of them if it cannot be parsed or names none."""
    try:
        with duckdb.connect() as connection:
            named = {name.lower() for name in connection.get_table_names(query)}
    except duckdb.Error:
        return VIEWS
    return [name for name in VIEWS if name in named] or VIEWS


class _Selects(ABC):
    """Makes the SELECT of each view; a subclass for each dialect. A view without files selects no rows."""

    mark = '"'
    """The quotation mark of names."""
    types: ClassVar[dict[str, str]] = {}
    """Names of types that differ from those of DuckDB."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.files: set[str] = set()
        """The files that the statements made so far read."""
        self.segments = [
            (
                int(run.segments.first_position[number]),
                run.segments.events_file[number],
                run.segments.skeleton_file[number],
            )
            for number in range(len(run.segments))
        ]

    def quote(self, name: str) -> str:
        return self.mark + name.replace(self.mark, 2 * self.mark) + self.mark

    def place(self, name: str) -> str:
        """Note that a statement reads a file; return its path or URI."""
        self.files.add(name)
        return self.run.place(name)

    @abstractmethod
    def table(self, name: str) -> str:
        """Select all rows of a file."""

    @abstractmethod
    def rows(self, files: list[tuple[int, str]], columns: str) -> str:
        """Select rows of files, given with their first positions, and add ``position``."""

    @abstractmethod
    def attribute(self, attribute: Attribute) -> str:
        """Make the expression of an attribute, in its type."""

    @abstractmethod
    def distances(self, column: str) -> str:
        """Make the expression that unnests a list: a row per entry as ``back``, with its index from 0 as ``nth``."""

    @abstractmethod
    def length(self, column: str) -> str:
        """Make the expression of the length of a list."""

    def events(self) -> str:
        stored = [name for name in self.run.event_schema().names if name != "attributes"]
        if not self.segments:
            return self.empty(position="BIGINT", **dict.fromkeys((*stored, "message"), "VARCHAR"))
        seq = "seq" if self.run.has_numbers else f"coalesce(seq, {layout.COUNTED_BY} + before)"
        computed = {"seq": seq, "id": f"coalesce(id, concat(process, ':', {seq}))"}
        columns = [
            f"{computed[name]} AS {self.quote(name)}" if name in computed else self.quote(name)
            for name in (*stored, "attributes")
        ]
        columns.append("coalesce(receives, sends) AS message")
        attributes = names_of(self.run).attribute_columns()
        columns += [f"{self.attribute(attribute)} AS {self.quote(attribute.name)}" for attribute in attributes]
        files = [(first, events) for first, events, _ in self.segments]
        rows = self.rows(files, ",\n  ".join(columns))
        return (
            rows
            if self.run.has_numbers
            else f"{rows}\nJOIN ({self.before()}) AS counted USING (name_of_file, computation, process)"
        )

    def before(self) -> str:
        """Select the number of events of each process before each segment, by name of the segment's file."""
        return (
            f"SELECT events_file AS name_of_file, computation, process, before FROM (\n  {self.unnested()}\n)\n"
            f"JOIN ({self.table(self.run.table_file('processes'))}) AS named USING (code)"
        )

    @abstractmethod
    def unnested(self) -> str:
        """Select the lists ``processes`` and ``before`` of the segments as rows: events_file, code, before."""

    def causes(self) -> str:
        if not self.segments:
            return self.empty(effect="BIGINT", cause="BIGINT", kind="VARCHAR")
        doubtful = (layout.SKELETON_ASSUMED, layout.SKELETON_TIED)
        by_columns: dict[tuple[bool, ...], list[tuple[int, str]]] = {}
        for file in self._skeletons():
            columns = self._columns(file)
            by_columns.setdefault(tuple(name in columns for name in doubtful), []).append(file)
        selects = []
        for present, files in by_columns.items():
            # The last causes of a row are assumed, and the last of these are ties.
            first_answer, first_tie = (
                f"{self.length('causes')} - CAST({name} AS BIGINT)" if has_column else "NULL"
                for name, has_column in zip(doubtful, present, strict=True)
            )
            columns_read = f"{self.distances('causes')}, {first_answer} AS first_answer, {first_tie} AS first_tie"
            kind = "CASE WHEN nth >= first_tie THEN 'tie' WHEN nth >= first_answer THEN 'answer' ELSE 'message' END"
            selects += self._edges(files, columns_read, kind)
        return "\nUNION ALL\n".join([*selects, *self._crossings(), *self._along_lines()])

    def _edges(self, files: list[tuple[int, str]], columns: str, kind: str) -> list[str]:
        """Select effect and cause from rows with ``back``; `kind` is an expression."""
        if not files:
            return []
        return [
            f"SELECT position AS effect, position - back AS cause, {kind} AS kind FROM (\n{self.rows(files, columns)}\n)"
        ]

    def _crossings(self) -> list[str]:
        """Select messages from earlier segments.

        The table of crossings does not say which are assumed, so the statement lists those pairs.
        """
        crossings = self.table(self.run.table_file("crossings"))
        assumed: list[tuple[int, int, str]] = []
        for number in range(len(self.run.segments)) if self.run.has_lines else ():
            first = int(self.run.segments.first_position[number])
            into = self.run.messages_into(number)
            for place in np.flatnonzero(into.assumed).tolist():
                kind = "tie" if into.tied[place] else "answer"
                assumed.append((first + int(into.row[place]), int(into.position[place]), kind))
        if not assumed:
            return [f"SELECT effect, cause, 'message' AS kind FROM ({crossings})"]
        return [
            f"SELECT effect, cause, coalesce(kind, 'message') AS kind FROM ({crossings}) AS crossing\n"
            f"LEFT JOIN ({_pairs(assumed)}) AS assumed USING (effect, cause)"
        ]

    def _along_lines(self) -> list[str]:
        """Select what events follow along lines.

        The files have references (`ledto.causality.lines`): an even one is twice the position of an event, and the odd one
        after it is the list of that event, which contains several events.
        """
        if not self.run.has_lines:
            return []
        files = [file for file in self._skeletons() if layout.SKELETON_FOLLOWS in self._columns(file)]
        before: list[tuple[int, int]] = []
        not_started: list[int] = []
        for number in range(len(self.run.segments)):
            first = int(self.run.segments.first_position[number])
            not_started += (rows_not_started(self.run, number) + first).tolist()
            rows, references = line_crossings(self.run, number)
            before += zip((rows + first).tolist(), references.tolist(), strict=True)
        counts = f" WHERE nth > 0 OR position NOT IN ({', '.join(map(str, not_started))})" if not_started else ""
        followed = (
            "SELECT position AS effect, 2 * position - back AS reference FROM (\n"
            f"{self.rows(files, self.distances(layout.SKELETON_FOLLOWS))}\n){counts}"
        )
        if before:
            listed = ", ".join(f"({effect}, {reference})" for effect, reference in before)
            crossing = "CAST(effect AS BIGINT) AS effect, CAST(reference AS BIGINT) AS reference"
            followed += f"\nUNION ALL\nSELECT {crossing} FROM (VALUES {listed}) AS crossing(effect, reference)"
        followed = (
            "SELECT effect, CAST((reference - reference % 2) / 2 AS BIGINT) AS cause, reference % 2 AS is_list "
            f"FROM (\n{followed}\n)"
        )
        columns = (
            f"{layout.LIST_FIRST} AS back_to_first, {layout.LIST_LOW} AS back_to_low, CASE WHEN {layout.LIST_REST} % 2 = 0 "
            f"THEN CAST({layout.LIST_REST} / 2 AS BIGINT) END AS back_to_row"
        )
        lists = (
            "SELECT position, position - back_to_first AS first, position - back_to_low AS low, "
            f"position - back_to_row AS row_before FROM (\n{self.rows(files, columns)}\n) WHERE back_to_first IS NOT NULL"
        )
        of_lists = (
            f"FROM ({followed}) AS followed JOIN ({lists}) AS head ON followed.is_list = 1 AND head.position = cause\n"
            f"JOIN ({lists}) AS held ON held.first = head.first AND held.position BETWEEN head.low AND head.position"
        )
        return [
            f"SELECT effect, cause, 'line' AS kind FROM ({followed}) WHERE is_list = 0",
            f"SELECT effect, held.position AS cause, 'line' AS kind\n{of_lists}",
            f"SELECT effect, held.row_before AS cause, 'line' AS kind\n{of_lists} WHERE held.row_before >= head.low",
        ]

    def _skeletons(self) -> list[tuple[int, str]]:
        return [(first, skeleton) for first, _, skeleton in self.segments]

    def _columns(self, file: tuple[int, str]) -> list[str]:
        names: list[str] = self.run.table(file[1]).schema_arrow.names
        return names

    def deliveries(self) -> str:
        selects = []
        for policy in self.run.manifest.policies:
            files = list(zip((first for first, *_ in self.segments), delivery_files(self.run, policy), strict=True))
            if files:
                selects.append(self.rows(files, f"{quote_text(policy)} AS policy, {self.quote('at')}, waited, late"))
        if not selects:
            return self.empty(position="BIGINT", policy="VARCHAR", at="BIGINT", waited="BIGINT", late="BOOLEAN")
        return "\nUNION ALL\n".join(selects)

    def processes(self) -> str:
        return self.table(self.run.table_file("processes"))

    def quarantine(self) -> str:
        selects = [self.table(name) for name in self.run.manifest.quarantine_files]
        if not selects:
            return self.empty(**{name: "BIGINT" if name == "place" else "VARCHAR" for name in layout.QUARANTINE.names})
        return "\nUNION ALL\n".join(selects)

    def empty(self, **columns: str) -> str:
        casts = ", ".join(
            f"CAST(NULL AS {self.types.get(kind, kind)}) AS {self.quote(name)}" for name, kind in columns.items()
        )
        return f"SELECT {casts} WHERE 1 = 0"


class _DuckDB(_Selects):
    def table(self, name: str) -> str:
        return f"SELECT * FROM read_parquet({quote_text(self.place(name))})"

    def rows(self, files: list[tuple[int, str]], columns: str) -> str:
        listed = ", ".join(quote_text(self.place(name)) for _, name in files)
        starts = ", ".join(f"({quote_text(self.place(name))}, {quote_text(name)}, {first})" for first, name in files)
        return (
            f"SELECT first_position + file_row_number AS position,\n  {columns}\n"
            f"FROM read_parquet([{listed}], file_row_number = true, filename = 'from_file')\n"
            f"JOIN (VALUES {starts}) AS starts(from_file, name_of_file, first_position) USING (from_file)"
        )

    def unnested(self) -> str:
        segments = quote_text(self.place(self.run.table_file("segments")))
        return f"SELECT events_file, unnest(processes) AS code, unnest(before) AS before FROM read_parquet({segments})"

    def attribute(self, attribute: Attribute) -> str:
        return attribute.typed()

    def distances(self, column: str) -> str:
        return f"unnest({column}) AS back, unnest(range(len({column}))) AS nth"

    def length(self, column: str) -> str:
        return f"len({column})"


class _Spark(_Selects):
    mark = "`"
    types: ClassVar[dict[str, str]] = {"VARCHAR": "STRING"}

    def table(self, name: str) -> str:
        self.files.add(name)
        return f"SELECT * FROM parquet.{self.quote(self._uri(name))}"

    def rows(self, files: list[tuple[int, str]], columns: str) -> str:
        self.files.update(name for _, name in files)
        names = ",".join(name for _, name in files)
        place = self._uri(f"{{{names}}}" if len(files) > 1 else names)
        starts = ", ".join(f"({quote_text(name)}, {first})" for first, name in files)
        return (
            f"SELECT first_position + row_number AS position,\n  {columns}\n"
            "FROM (SELECT *, _metadata.row_index AS row_number, _metadata.file_name AS name_of_file\n"
            f"  FROM parquet.{self.quote(place)})\n"
            f"JOIN (VALUES {starts}) AS starts(name_of_file, first_position) USING (name_of_file)"
        )

    def unnested(self) -> str:
        return (
            "SELECT events_file, zipped.processes AS code, zipped.before AS before FROM (SELECT events_file, "
            f"explode(arrays_zip(processes, before)) AS zipped FROM ({self.table(self.run.table_file('segments'))}))"
        )

    def _uri(self, name: str) -> str:
        # The default file system of Spark may be another than that of this machine.
        return f"file://{self.run.place(name)}" if self.run.store.is_local else self.run.place(name)

    def attribute(self, attribute: Attribute) -> str:
        texts = [self._text(path) for path in attribute.paths]
        text = texts[0] if len(texts) == 1 else f"coalesce({', '.join(texts)})"
        kind = {INTEGER: "BIGINT", NUMBER: "DOUBLE", BOOLEAN: "BOOLEAN"}.get(attribute.type or TEXT)
        return f"try_cast({text} AS {kind})" if kind else text

    def _text(self, path: tuple[str, ...]) -> str:
        """Make the expression of the text at a path."""
        if all(map(_PLAIN.fullmatch, path)):
            steps = "".join(f"[\\'{name}\\']" for name in path)
            return f"get_json_object(attributes, '${steps}')"
        # A path cannot express every name: quotes and question marks end it, and a star means all names.
        text = "attributes"
        for name in path:
            text = f"element_at(from_json({text}, 'MAP<STRING, STRING>'), {_sparkquote_text(name)})"
        return text

    def distances(self, column: str) -> str:
        return f"posexplode({column}) AS (nth, back)"

    def length(self, column: str) -> str:
        return f"size({column})"


def _pairs(pairs: list[tuple[int, int, str]]) -> str:
    """Select pairs of effect and cause, each with its kind."""
    listed = ", ".join(f"({effect}, {cause}, {quote_text(kind)})" for effect, cause, kind in pairs)
    columns = "CAST(effect AS BIGINT) AS effect, CAST(cause AS BIGINT) AS cause, kind"
    return f"SELECT {columns} FROM (VALUES {listed}) AS pairs(effect, cause, kind)"


def _sparkquote_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
