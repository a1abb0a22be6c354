"""The event trees of Interval Tree Clocks: how many events each part has had; with the paper's names.

``n``: a whole part has risen to n. ``(n, left, right)``: its halves have risen above n as their trees say. All
functions take and give normal forms: equal leaves are merged, and at least one half starts at 0.

Source: Almeida, Baquero and Fonte 2008, sections 5.2 and 5.3.
"""

from __future__ import annotations

from typing import TypeAlias

from ledto.clocks.itc.bits import BitReader, BitWriter
from ledto.clocks.itc.id_tree import MAX_DEPTH, Share
from ledto.clocks.wire import DAMAGED
from ledto.errors import StampError

Events: TypeAlias = "int | tuple[int, Events, Events]"

_NEW_NODE = 1 << 20
"""The cost of a new node in `grow`, where a level of depth costs 1: more than any path is deep."""
_ORDER = 2
_LEFT_ZERO, _RIGHT_ZERO, _BOTH, _RAISED = range(4)


def lift(e: Events, by: int) -> Events:
    """Raise the tree by `by`; a negative number lowers it (the paper's sink)."""
    return e + by if isinstance(e, int) else (e[0] + by, e[1], e[2])


def lowest(e: Events) -> int:
    """Return the paper's min: in a normal form, that of the root."""
    return e if isinstance(e, int) else e[0]


def highest(e: Events) -> int:
    """Return the paper's max."""
    return e if isinstance(e, int) else e[0] + max(highest(e[1]), highest(e[2]))


def norm(n: int, left: Events, right: Events) -> Events:
    """Make the normal form of a node whose halves are in normal form."""
    if isinstance(left, int) and left == right:
        return n + left
    least = min(lowest(left), lowest(right))
    return n + least, lift(left, -least), lift(right, -least)


def leq(a: Events, b: Events, raised: int = 0) -> bool:
    """Tell whether `a`, raised by `raised`, is nowhere above `b`."""
    if isinstance(a, int):
        return a + raised <= lowest(b)
    if isinstance(b, int):
        return highest(a) + raised <= b
    here = a[0] + raised - b[0]
    return here <= 0 and leq(a[1], b[1], here) and leq(a[2], b[2], here)


def join(a: Events, b: Events) -> Events:
    """Return the higher of both, everywhere."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    low, left, right = (a, 0, 0) if isinstance(a, int) else a
    high, other_left, other_right = (b, 0, 0) if isinstance(b, int) else b
    if low > high:
        return join(b, a)
    rise = high - low
    return norm(low, join(left, lift(other_left, rise)), join(right, lift(other_right, rise)))


def fill(share: Share, e: Events) -> Events:
    """Raise owned parts to their surroundings where that makes the tree smaller."""
    if share == 0 or isinstance(e, int):
        return e
    if isinstance(share, int):
        return highest(e)
    n, left, right = e
    if share[0] == 1:
        right = fill(share[1], right)
        return norm(n, max(highest(left), lowest(right)), right)
    if share[1] == 1:
        left = fill(share[0], left)
        return norm(n, left, max(highest(right), lowest(left)))
    return norm(n, fill(share[0], left), fill(share[1], right))


def grow(share: Share, e: Events) -> tuple[Events, int]:
    """Raise one owned part by 1 with the fewest new nodes; return the tree and the cost. Call `fill` before."""
    if isinstance(e, int):
        if share == 1:
            return e + 1, 0
        grown, cost = grow(share, (e, 0, 0))
        return grown, cost + _NEW_NODE
    n, left, right = e
    assert not isinstance(share, int), "fill has flattened what is owned whole"
    if share[0] == 0:
        right, cost = grow(share[1], right)
        return (n, left, right), cost + 1
    if share[1] == 0:
        left, cost = grow(share[0], left)
        return (n, left, right), cost + 1
    (grown_left, cost_left), (grown_right, cost_right) = grow(share[0], left), grow(share[1], right)
    if cost_left < cost_right:
        return (n, grown_left, right), cost_left + 1
    return (n, left, grown_right), cost_right + 1


def event(share: Share, e: Events) -> Events:
    """Count one event of the owner of `share`: fill, or else grow."""
    filled = fill(share, e)
    return filled if filled != e else grow(share, e)[0]


def write_events(out: BitWriter, e: Events) -> None:
    """Write a bit for leaf or node, then its number and its halves; small numbers and halves at 0 are short."""
    if isinstance(e, int):
        out.put(1, 1)
        out.number(e, _ORDER)
        return
    n, left, right = e
    out.put(0, 1)
    if n:
        out.put(_RAISED, 2)
        out.number(n - 1, _ORDER)
    out.put(_LEFT_ZERO if left == 0 else _RIGHT_ZERO if right == 0 else _BOTH, 2)
    if left != 0:
        write_events(out, left)
    if right != 0:
        write_events(out, right)


def read_events(read: BitReader, depth: int = 0) -> Events:
    """Read what `write_events` wrote; `StampError` if it is too deep or not canonical."""
    if read.take(1):
        return read.number(_ORDER)
    if depth >= MAX_DEPTH:
        raise StampError(f"an event tree must be at most {MAX_DEPTH} levels deep and is deeper: {DAMAGED}")
    shape, n = read.take(2), 0
    if shape == _RAISED:
        n = 1 + read.number(_ORDER)
        shape = read.take(2)
    if shape == _RAISED:
        raise StampError(f"an event tree must raise a node once, and raises one twice: {DAMAGED}")
    left = 0 if shape == _LEFT_ZERO else read_events(read, depth + 1)
    right = 0 if shape == _RIGHT_ZERO else read_events(read, depth + 1)
    if norm(n, left, right) != (n, left, right) or (shape == _BOTH and 0 in (left, right)):
        raise StampError(f"an event tree must be in its normal form and is not: {DAMAGED}")
    return n, left, right
