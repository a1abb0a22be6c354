"""Ids and events of Interval Tree Clocks, as plain values, under the paper's own names.

An id says which part of the interval [0, 1) an instance owns: 0 nothing, 1 all of it, ``(il, ir)`` parts of both halves. An
event tree is a function from [0, 1) to counters: ``n`` is n everywhere, ``(n, el, er)`` is n plus what each half adds. All
functions take and give normal forms.

A server that forks once for each client makes trees as deep as it has clients, so no function recurses on the stack:
those with a ``yield`` are run by `run`, which keeps the pending calls in a list.

Source: Almeida, Baquero and Fonte, Interval Tree Clocks, 2008, sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar, cast

from whence.clocks.errors import ClockError

Id: TypeAlias = "int | tuple[Id, Id]"
Event: TypeAlias = "int | tuple[int, Event, Event]"
Cost: TypeAlias = tuple[int, int]
"""What growing a leaf costs: nodes added to the tree first, then the depth of the leaf."""

T = TypeVar("T")
Steps: TypeAlias = Generator[Any, Any, T]


def run(steps: Steps[T]) -> T:
    """The result of a function that yields its recursive calls, at any depth."""
    pending: list[Steps[Any]] = [steps]
    value: Any = None
    while True:
        try:
            pending.append(pending[-1].send(value))
            value = None
        except StopIteration as done:
            pending.pop()
            value = done.value
            if not pending:
                return cast(T, value)


def split(i: Id) -> Steps[tuple[Id, Id]]:
    """Two ids that share out this one."""
    if not isinstance(i, tuple):
        return (0, 0) if i == 0 else ((1, 0), (0, 1))
    il, ir = i
    if il == 0:
        first, second = yield split(ir)
        return (0, first), (0, second)
    if ir == 0:
        first, second = yield split(il)
        return (first, 0), (second, 0)
    return (il, 0), (0, ir)


def sum_ids(a: Id, b: Id) -> Steps[Id]:
    """The id that owns what both own (`sum` in the paper); raises `ClockError` where they overlap."""
    if a == 0:
        return b
    if b == 0:
        return a
    if not isinstance(a, tuple) or not isinstance(b, tuple):
        raise ClockError(
            "both instances own the same part of the interval: one of them was used after it was forked, or was taken over "
            "twice. Every fork, join and hand-over must be the last use of its instance"
        )
    left = yield sum_ids(a[0], b[0])
    right = yield sum_ids(a[1], b[1])
    return norm_id(left, right)


def norm_id(il: Id, ir: Id) -> Id:
    """The id of two halves, in normal form."""
    if il == 0 == ir:
        return 0
    return 1 if il == 1 == ir else (il, ir)


def base(e: Event) -> int:
    """The counter that the whole tree has at least; in normal form, its smallest (`min` in the paper)."""
    return e[0] if isinstance(e, tuple) else e


def max_event(e: Event) -> int:
    """The largest counter of the tree (`max` in the paper)."""
    largest = 0
    pending: list[tuple[Event, int]] = [(e, 0)]
    while pending:
        tree, above = pending.pop()
        if isinstance(tree, tuple):
            pending += (tree[1], above + tree[0]), (tree[2], above + tree[0])
        else:
            largest = max(largest, above + tree)
    return largest


def lift(e: Event, m: int) -> Event:
    """The tree with every counter raised by m."""
    return (e[0] + m, e[1], e[2]) if isinstance(e, tuple) else e + m


def sink(e: Event, m: int) -> Event:
    """The tree with every counter lowered by m."""
    return lift(e, -m)


def norm(n: int, el: Event, er: Event) -> Event:
    """The tree of a counter and two halves in normal form, in normal form."""
    if not isinstance(el, tuple) and not isinstance(er, tuple) and el == er:
        return n + el
    m = min(base(el), base(er))
    return (n + m, sink(el, m), sink(er, m))


def leq(a: Event, b: Event) -> bool:
    """Whether no counter of `a` exceeds its counterpart in `b`."""
    pending = [(a, b)]
    while pending:
        a, b = pending.pop()
        if base(a) > base(b):
            return False
        if isinstance(a, tuple):
            n, al, ar = a
            m, bl, br = b if isinstance(b, tuple) else (b, 0, 0)
            pending += (lift(al, n), lift(bl, m)), (lift(ar, n), lift(br, m))
    return True


def join(a: Event, b: Event) -> Steps[Event]:
    """The larger counter of both, everywhere."""
    if not isinstance(a, tuple) and not isinstance(b, tuple):
        return max(a, b)
    n, al, ar = a if isinstance(a, tuple) else (a, 0, 0)
    m, bl, br = b if isinstance(b, tuple) else (b, 0, 0)
    if n > m:
        n, al, ar, m, bl, br = m, bl, br, n, al, ar
    left = yield join(al, lift(bl, m - n))
    right = yield join(ar, lift(br, m - n))
    return norm(n, left, right)


def fill(i: Id, e: Event) -> Steps[Event]:
    """The tree with counters raised, within the id, to where it needs fewer nodes; the very same object if nowhere."""
    if i == 0 or not isinstance(e, tuple):
        return e
    if not isinstance(i, tuple):
        return max_event(e)
    il, ir = i
    n, el, er = e
    if il == 1:
        right = yield fill(ir, er)
        left = _raised(el, base(right))
    elif ir == 1:
        left = yield fill(il, el)
        right = _raised(er, base(left))
    else:
        left = yield fill(il, el)
        right = yield fill(ir, er)
    return e if left is el and right is er else norm(n, left, right)


def _raised(e: Event, least: int) -> Event:
    """A fully owned half at its largest counter, or at the smallest of the other half if that is more."""
    top = max(max_event(e), least)
    return e if e == top else top


def grow(i: Id, e: Event) -> Steps[tuple[Event, Cost]]:
    """The tree with one counter raised by one, within the id, where that adds the fewest nodes; and what it costs."""
    if not isinstance(e, tuple):
        if i == 1:
            return e + 1, (0, 0)
        grown, (nodes, depth) = yield grow(i, (e, 0, 0))
        return grown, (nodes + 1, depth)
    n, el, er = e
    il, ir = i if isinstance(i, tuple) else (i, i)
    left = (yield grow(il, el)) if il != 0 else None
    right = (yield grow(ir, er)) if ir != 0 else None
    if right is None or (left is not None and left[1] < right[1]):
        assert left is not None
        return (n, left[0], er), (left[1][0], left[1][1] + 1)
    return (n, el, right[0]), (right[1][0], right[1][1] + 1)


def event(i: Id, e: Event) -> Event:
    """The tree after an event of the instance that owns the id."""
    filled = run(fill(i, e))
    return filled if filled is not e else run(grow(i, e))[0]


def depth(tree: Id | Event) -> int:
    """How deep an id or an event tree is; a leaf has depth 0."""
    deepest = 0
    pending: list[tuple[Id | Event, int]] = [(tree, 0)]
    while pending:
        node, level = pending.pop()
        if isinstance(node, tuple):
            pending += (node[-2], level + 1), (node[-1], level + 1)
        deepest = max(deepest, level)
    return deepest
