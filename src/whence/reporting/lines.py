"""The line that an event is on: one of the things that a process does, such as a request, a task or a thread.

A context variable holds the *place* where code stands: the last event of a line, or a line that begins with the next
event. Python copies contexts when it makes a task (and in `asyncio.to_thread`), so what is started finds the place that
it was started from.

Guarantees:

- events of one line follow each other in one task or thread;
- a place that any context holds is the last event of its line: code that goes on from a place which another context
  holds as well goes on under a new line (``checkout #k2m7xe-3.2`` after ``checkout #k2m7xe-3``). So the name in
  ``line_parent`` says exactly what came before, however late the first event of a task comes;
- a join is told only where the end of the joined line was seen;
- names are used once: they hold a random word of this start of the process, and a number.

HAZARD: tasks that share one context (``create_task(..., context=shared)``) cannot be told from what they were started by:
such a task counts as started from the last event that was reported in that context before its own first one.
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

from whence.reporting.records import name_json

LABEL_CHARACTERS: Final = 80
"""Longer labels of lines are cut."""
MOST_JOINS: Final = 1_000
"""Joined lines that wait for the next event; the oldest are forgotten beyond it, for whoever joins and never reports."""

_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_modules = sys.modules


class _Thread(threading.local):
    def __init__(self) -> None:
        self.owner = object()


_thread = _Thread()


class Line:
    """One line. It begins with its first event; whoever holds a `Place` of it may go on from there."""

    __slots__ = ("block", "fields", "first", "is_begun", "is_over", "name", "owner", "parts", "started_from")

    def __init__(self, name: str, owner: object, started_from: Place | None, block: Block | None) -> None:
        self.name = name
        self.fields = f'"line":{name_json(name)}'
        self.owner = owner
        self.started_from = started_from
        """None once it has begun: a place that is held keeps its line from going on."""
        self.is_begun = self.is_over = False
        self.first, self.parts = name, count(2)
        """The name and the numbers of the lines that this one goes on as."""
        self.block = block

    def gone_on(self, owner: object, held: Place) -> Line:
        """The line that this one goes on as, because another context holds its last place."""
        line = Line(f"{self.first}.{next(self.parts)}", owner, held, self.block)
        line.first, line.parts = self.first, self.parts
        return line


class Place:
    """Where code stands: after the last event of a line. Contexts hold it; whether one does is asked by a weak reference."""

    __slots__ = ("__weakref__", "joins", "line", "root")

    def __init__(self, line: Line, joins: tuple[str, ...] = (), root: Place | None = None) -> None:
        self.line = line
        self.joins = joins
        """Lines that were waited for since that event."""
        self.root = root
        """The place as it was before anything was waited for: other contexts may hold that one."""

    def joined(self, names: Iterable[str]) -> Place:
        """The same place, where these lines were waited for as well."""
        joins = tuple(dict.fromkeys((*self.joins, *names)))
        return Place(self.line, joins[-MOST_JOINS:], self.root or self)

    def end(self) -> tuple[str, ...]:
        """End the line; give the names of the lines that have ended with it."""
        self.line.is_over = True
        return (*self.joins, self.line.name) if self.line.is_begun else self.joins


class Lines:
    """The lines of one process. Its methods are called by the code whose line is meant, in its context."""

    def __init__(self) -> None:
        self._place: ContextVar[Place | None] = ContextVar("whence-line", default=None)
        self._word = "".join(secrets.choice(_LETTERS) for _ in range(6))
        self._numbers = count(1)
        self._last: WeakKeyDictionary[Any, Line] = WeakKeyDictionary()
        """The line that each task reported on last."""
        self._untold: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()
        """The lines that a task has waited for since then."""
        self._main: Line | None = None
        self.own = Line(f"whence #{self._word}", None, None, None)
        """For what the reporter says of itself."""

    def go_on(self) -> tuple[Line, str]:
        """The line of the event that is reported now, and what the event says of it, as members of a JSON object.

        HAZARD: called by one thread at a time; the reporter's lock is held.
        """
        owner = current_owner()
        place = self._place.get()
        joins: tuple[str, ...] = ()
        if place is None:
            line = self._unrelated(owner)
            self._place.set(Place(line))
        else:
            line, joins = place.line, place.joins
            if line.is_over or line.owner is not owner:
                line = self._another(owner, place)
                self._place.set(Place(line))
            else:
                is_held = ref(place.root or place)
                del place
                self._place.set(Place(line))
                # Alive still: another context, a task's or a timer's, may start something from there later.
                if (held := is_held()) is not None:
                    line = line.gone_on(line.owner, held)
                    self._place.set(Place(line))
        if joins and isinstance(owner, ref):
            self._untold.pop(owner(), None)
        return line, line.fields if line.is_begun and not joins else fields_of(line, joins)

    def was_reported(self, line: Line) -> None:
        """Note that an event of this line is on its way."""
        if not line.is_begun:
            line.is_begun, line.started_from = True, None
            self._note(line)

    def block(self, label: str) -> Block:
        """A line for the statements of a ``with``; what comes after it joins the line."""
        return Block(self, label, joins=True)

    def request(self, label: str, *, is_started_here: bool = True) -> Block:
        """As `block`, for what a server or worker takes up: what its thread or task does afterwards does not follow it.

        `is_started_here`: whether it is started from the line of the calling code; not by a thread of a pool.
        """
        return Block(self, label, joins=False, is_started_here=is_started_here)

    def join(self, names: Iterable[str]) -> None:
        """Let the next event of the calling code say that these lines ended before it."""
        self.stand(self.standing().joined(names))

    def join_task(self, task: Any) -> None:
        """Join the line of a task that is done, as far as it reported."""
        names = self._untold.pop(task, ())
        line = self._last.get(task)
        if line is not None:
            line.is_over = True
            names = (*names, line.name)
        if names:
            self.join(names)

    def inherit(self) -> Line:
        """In a forked child: the main line, on which the fork is received; the forking code goes on from there."""
        main = self._new_main(current_owner())
        self._place.set(Place(main))
        return main

    def standing(self) -> Place:
        """The place of the calling code; one of a line that is to begin where it has none of its own."""
        owner, place = current_owner(), self._place.get()
        if place is None:
            place = Place(self._unrelated(owner))
        elif place.line.is_over or place.line.owner is not owner:
            place = Place(self._another(owner, place), place.joins)
        self._place.set(place)
        return place

    def stand(self, place: Place | None) -> None:
        """Let the calling code stand there."""
        self._place.set(place)
        if place is not None and isinstance(place.line.owner, ref):
            if place.line.is_begun:
                self._note(place.line)
            if place.joins and (task := place.line.owner()) is not None:
                self._untold[task] = place.joins

    def stands_at(self) -> Place | None:
        """The place of the calling code, if it has one."""
        return self._place.get()

    def new(self, label: str, owner: object, started_from: Place | None = None, block: Block | None = None) -> Line:
        """A line that is to begin."""
        name = f"{label[:LABEL_CHARACTERS]} #{self._word}-{next(self._numbers)}"
        return Line(name, owner, started_from, block)

    def _new_main(self, owner: object) -> Line:
        self._main = Line(f"main #{self._word}", owner, None, None)
        return self._main

    def _another(self, owner: object, place: Place) -> Line:
        """A line of a task, thread or callback whose context holds a place of another one."""
        earlier = self._last.get(owner()) if isinstance(owner, ref) else None
        if earlier is not None and not earlier.is_over:
            # Tasks share a context: what stands there may be another's, and nothing that this one was started from.
            return earlier.gone_on(owner, Place(earlier))
        return self.new(_label(owner), owner, place)

    def _note(self, line: Line) -> None:
        if isinstance(line.owner, ref) and (task := line.owner()) is not None:
            self._last[task] = line

    def _unrelated(self, owner: object) -> Line:
        """A line of code that nothing is known of; the main thread's is the main line."""
        if self._main is None and owner is _thread.owner and threading.current_thread() is threading.main_thread():
            return self._new_main(owner)
        return self.new(_label(owner), owner)


class Block:
    """A line for the statements of a ``with``; see `Lines.block` and `Lines.request`."""

    def __init__(self, lines: Lines, label: str, *, joins: bool, is_started_here: bool = True) -> None:
        self._lines, self._label, self._joins, self._is_started_here = lines, label, joins, is_started_here
        self._outer: Place | None = None
        self._enclosing: Block | None = None

    def __enter__(self) -> None:
        lines = self._lines
        outer = self._outer = lines.standing() if self._joins else lines.stands_at()
        self._enclosing = None if outer is None else outer.line.block
        started_from = outer if self._is_started_here else None
        # What was joined before it was started is before its first event, too.
        joins = () if started_from is None else started_from.joins
        lines.stand(Place(lines.new(self._label, current_owner(), started_from, self), joins))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outer, self._outer = self._outer, None
        place = self._lines.stands_at()
        if place is None or not self._holds(place.line.block):
            return  # Left in another context than it was entered in: its end was not seen there.
        ended = place.end()
        if self._joins and outer is not None:
            # These follow what the outer line had joined, or are the same.
            outer = Place(outer.line, ended, outer.root or outer)
        self._lines.stand(outer)

    def _holds(self, block: Block | None) -> bool:
        while block is not None and block is not self:
            block = block._enclosing
        return block is self


def current_owner() -> object:
    """Who runs this code: the task, as a weak reference; else the thread; None for a callback of an event loop."""
    asyncio = _modules.get("asyncio")
    if asyncio is None or (loop := asyncio._get_running_loop()) is None:
        return _thread.owner
    task = asyncio.current_task(loop)
    # There is one such reference for each task while it lives, and none of a task that is gone equals a later one's.
    return None if task is None else ref(task)


def fields_of(line: Line, joins: Iterable[str] = ()) -> str:
    """What the next event of a line tells of it, as members of a JSON object."""
    fields = line.fields
    if not line.is_begun:
        fields += ',"line_phase":"first"'
        if (parent := _begun(line.started_from)) is not None:
            fields += f',"line_parent":{name_json(parent.name)}'
    if joins:
        fields += f',"line_joins":[{",".join(map(name_json, joins))}]'
    return fields


def _begun(place: Place | None) -> Line | None:
    """The line whose last event is before this place: its own if it has begun, else the one that it was started from."""
    while place is not None and not place.line.is_begun:
        place = place.line.started_from
    return None if place is None else place.line


def _label(owner: object) -> str:
    if isinstance(owner, ref):
        task = owner()
        return "task" if task is None else str(task.get_name())
    return "callback" if owner is None else threading.current_thread().name
