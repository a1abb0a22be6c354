"""Find the line of each event: the request, task or thread of the process that reports it.

A context variable holds the *place* of the running code: after the last event of a line, or before the first one of a
new line. Python copies the context when it makes a task (and in `asyncio.to_thread`), so a task knows the place that
started it.

Guarantees:

- events of one line follow each other in one task or thread;
- a place that any context holds is after the last event of its line. If another context holds the place as well, code
  continues on a new line (``checkout #k2m7xe-3.2`` after ``checkout #k2m7xe-3``). So the name in ``line_parent`` says
  exactly which events came before, however late the first event of a task comes;
- a join is recorded only where the end of the joined line was seen;
- no name is used twice: names have a random word of this start of the process, and a number.

HAZARD: a task that shares its context with others (``create_task(..., context=shared)``) seems to be started from the
last event that was reported in that context before its own first one.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Iterable
from contextvars import ContextVar
from itertools import count
from types import TracebackType
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from ledto.reporting.records import name_json

LABEL_CHARACTERS: Final = 80
"""The length of a line's label at most. Longer ones are cut."""
MOST_JOINS: Final = 1_000
"""How many joined lines wait for the next event at most. The oldest are forgotten, for code that joins and never reports."""

_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_modules = sys.modules


class _Thread(threading.local):
    def __init__(self) -> None:
        self.owner = object()


_thread = _Thread()


class Line:
    """One line. It begins with its first event. Code that holds a `LinePlace` of it continues from there."""

    __slots__ = ("block", "fields", "first", "is_begun", "is_over", "name", "owner", "parts", "started_from")

    def __init__(self, name: str, owner: object, started_from: LinePlace | None, block: LineBlock | None) -> None:
        self.name = name
        self.fields = f'"line":{name_json(name)}'
        self.owner = owner
        self.started_from = started_from
        """The place that started it; None after its first event, since a held place ends its line."""
        self.is_begun = self.is_over = False
        self.first, self.parts = name, count(2)
        """The name of the first part, and the numbers of the parts that continue it."""
        self.block = block

    def make_next_part(self, owner: object, held: LinePlace) -> Line:
        """Make the line that continues this one, because another context holds its last place."""
        line = Line(f"{self.first}.{next(self.parts)}", owner, held, self.block)
        line.first, line.parts = self.first, self.parts
        return line


class LinePlace:
    """The place of running code: after the last event of a line. Contexts hold it; a weak reference tells if any does."""

    __slots__ = ("__weakref__", "joins", "line", "root")

    def __init__(self, line: Line, joins: tuple[str, ...] = (), root: LinePlace | None = None) -> None:
        self.line = line
        self.joins = joins
        """Names of lines that were joined since that event."""
        self.root = root
        """The place before the first of these joins, which other contexts may hold; None without joins."""

    def with_joins(self, names: Iterable[str]) -> LinePlace:
        """Return the same place after joins of these lines."""
        joins = tuple(dict.fromkeys((*self.joins, *names)))
        return LinePlace(self.line, joins[-MOST_JOINS:], self.root or self)

    def end(self) -> tuple[str, ...]:
        """End the line; return the names of the lines that a join of it must name."""
        self.line.is_over = True
        return (*self.joins, self.line.name) if self.line.is_begun else self.joins


class ProcessLines:
    """The lines of one process. Methods act on the line of the code that calls them, in its context."""

    def __init__(self) -> None:
        self._place: ContextVar[LinePlace | None] = ContextVar("ledto-line", default=None)
        self._word = "".join(secrets.choice(_LETTERS) for _ in range(6))
        self._numbers = count(1)
        self._last: WeakKeyDictionary[Any, Line] = WeakKeyDictionary()
        """The line of the last event of each task."""
        self._pending_joins: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()
        """The lines that each task has joined since its last event."""
        self._main: Line | None = None
        self.line_of_reporter = Line(f"ledto #{self._word}", None, None, None)
        """The line of the reporter's own events."""

    def line_of_next_event(self) -> tuple[Line, str]:
        """Return the line of the event that is being reported, and the members of its JSON object that name the line.

        HAZARD: not thread-safe; hold the reporter's lock.
        """
        owner = current_owner()
        place = self._place.get()
        joins: tuple[str, ...] = ()
        if place is None:
            line = self._make_without_start(owner)
            self._place.set(LinePlace(line))
        else:
            line, joins = place.line, place.joins
            if line.is_over or line.owner is not owner:
                line = self._make_in_copied_context(owner, place)
                self._place.set(LinePlace(line))
            else:
                reference = ref(place.root or place)
                del place
                self._place.set(LinePlace(line))
                # If it is alive, another context, of a task or a timer, may start something from there later.
                if (held := reference()) is not None:
                    line = line.make_next_part(line.owner, held)
                    self._place.set(LinePlace(line))
        if joins and isinstance(owner, ref):
            self._pending_joins.pop(owner(), None)
        return line, line.fields if line.is_begun and not joins else line_fields(line, joins)

    def mark_reported(self, line: Line) -> None:
        """Note that an event of this line was queued."""
        if not line.is_begun:
            line.is_begun, line.started_from = True, None
            self._note_last(line)

    def block(self, label: str) -> LineBlock:
        """Return a line for the statements of a ``with``. The code after it joins the line."""
        return LineBlock(self, label, joins=True)

    def request(self, label: str, *, is_started_here: bool = True) -> LineBlock:
        """Return a line for the statements of a ``with`` that the code after it does not join: a request of a server.

        Its first event follows the line of the calling code if `is_started_here`. Pass False in a thread of a pool.
        """
        return LineBlock(self, label, joins=False, is_started_here=is_started_here)

    def join(self, names: Iterable[str]) -> None:
        """Record with the next event of the calling code that these lines ended before it."""
        self.set_place(self.ensure_place().with_joins(names))

    def join_task(self, task: Any) -> None:
        """Join the last line of a finished task, and the lines that it joined after its last event."""
        names = self._pending_joins.pop(task, ())
        line = self._last.get(task)
        if line is not None:
            line.is_over = True
            names = (*names, line.name)
        if names:
            self.join(names)

    def inherit(self) -> Line:
        """Begin the main line of a forked child with the code that forked. The fork is received on it."""
        main = self._make_main(current_owner())
        self._place.set(LinePlace(main))
        return main

    def ensure_place(self) -> LinePlace:
        """Return the place of the calling code; begin a line if it has none of its own."""
        owner, place = current_owner(), self._place.get()
        if place is None:
            place = LinePlace(self._make_without_start(owner))
        elif place.line.is_over or place.line.owner is not owner:
            place = LinePlace(self._make_in_copied_context(owner, place), place.joins)
        self._place.set(place)
        return place

    def set_place(self, place: LinePlace | None) -> None:
        """Make this the place of the calling code."""
        self._place.set(place)
        if place is not None and isinstance(place.line.owner, ref):
            if place.line.is_begun:
                self._note_last(place.line)
            if place.joins and (task := place.line.owner()) is not None:
                self._pending_joins[task] = place.joins

    def place_or_none(self) -> LinePlace | None:
        """Return the place of the calling code; None if it has none."""
        return self._place.get()

    def make(
        self, label: str, owner: object, started_from: LinePlace | None = None, block: LineBlock | None = None
    ) -> Line:
        """Make a line that begins with its first event."""
        name = f"{label[:LABEL_CHARACTERS]} #{self._word}-{next(self._numbers)}"
        return Line(name, owner, started_from, block)

    def _make_main(self, owner: object) -> Line:
        self._main = Line(f"main #{self._word}", owner, None, None)
        return self._main

    def _make_in_copied_context(self, owner: object, place: LinePlace) -> Line:
        """Make a line for a task, thread or callback whose context holds the place of another one."""
        earlier = self._last.get(owner()) if isinstance(owner, ref) else None
        if earlier is not None and not earlier.is_over:
            # Tasks share a context: the place in it may be of another task, which did not start this one.
            return earlier.make_next_part(owner, LinePlace(earlier))
        return self.make(_label(owner), owner, place)

    def _note_last(self, line: Line) -> None:
        if isinstance(line.owner, ref) and (task := line.owner()) is not None:
            self._last[task] = line

    def _make_without_start(self, owner: object) -> Line:
        """Make a line for code that nothing known has started. In the main thread it is the main line."""
        if self._main is None and owner is _thread.owner and threading.current_thread() is threading.main_thread():
            return self._make_main(owner)
        return self.make(_label(owner), owner)


class LineBlock:
    """A line for the statements of a ``with``. See `ProcessLines.block` and `ProcessLines.request`."""

    def __init__(self, lines: ProcessLines, label: str, *, joins: bool, is_started_here: bool = True) -> None:
        self._lines, self._label, self._joins, self._is_started_here = lines, label, joins, is_started_here
        self._outer: LinePlace | None = None
        self._enclosing: LineBlock | None = None

    def __enter__(self) -> None:
        lines = self._lines
        outer = self._outer = lines.ensure_place() if self._joins else lines.place_or_none()
        self._enclosing = None if outer is None else outer.line.block
        started_from = outer if self._is_started_here else None
        # Lines that were joined before its start ended before its first event, too.
        joins = () if started_from is None else started_from.joins
        lines.set_place(LinePlace(lines.make(self._label, current_owner(), started_from, self), joins))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outer, self._outer = self._outer, None
        place = self._lines.place_or_none()
        if place is None or not self._encloses(place.line.block):
            return  # Left in another context than it was entered in, where the end of its line was not seen.
        ended = place.end()
        if self._joins and outer is not None:
            # These lines follow those that the outer line had joined, or are the same.
            outer = LinePlace(outer.line, ended, outer.root or outer)
        self._lines.set_place(outer)

    def _encloses(self, block: LineBlock | None) -> bool:
        """Return whether this is the block, or one around it."""
        while block is not None and block is not self:
            block = block._enclosing
        return block is self


def current_owner() -> object:
    """Return who runs this code: a weak reference to the task, or the thread's object; None in a loop's callback."""
    asyncio = _modules.get("asyncio")
    if asyncio is None or (loop := asyncio._get_running_loop()) is None:
        return _thread.owner
    task = asyncio.current_task(loop)
    # Python keeps one such reference for each live task, and the one of an ended task equals no later one.
    return None if task is None else ref(task)


def line_fields(line: Line, joins: Iterable[str] = ()) -> str:
    """What the next event of a line tells of it, as members of a JSON object."""
    fields = line.fields
    if not line.is_begun:
        fields += ',"line_phase":"first"'
        if (parent := _begun(line.started_from)) is not None:
            fields += f',"line_parent":{name_json(parent.name)}'
    if joins:
        fields += f',"line_joins":[{",".join(map(name_json, joins))}]'
    return fields


def _begun(place: LinePlace | None) -> Line | None:
    """Return the line of the last event before this place: its own if it has begun, else the one that started it."""
    while place is not None and not place.line.is_begun:
        place = place.line.started_from
    return None if place is None else place.line


def _label(owner: object) -> str:
    """Name the task, thread or callback for people."""
    if isinstance(owner, ref):
        task = owner()
        return "task" if task is None else str(task.get_name())
    return "callback" if owner is None else threading.current_thread().name
