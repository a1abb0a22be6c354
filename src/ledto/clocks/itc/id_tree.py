"""The id trees of Interval Tree Clocks: which part each instance owns.

``0`` owns nothing, ``1`` everything below, ``(left, right)`` what its halves own. Shares of live instances never
overlap, and a fork halves, so no instance needs to know of others. Source: Almeida, Baquero and Fonte 2008, section
5.3.
"""

from __future__ import annotations

from typing import TypeAlias

from ledto.clocks.itc.bits import BitReader, BitWriter
from ledto.clocks.wire import DAMAGED
from ledto.errors import ClockError, StampError

Share: TypeAlias = "int | tuple[Share, Share]"
"""What an instance owns: the paper's id."""

MAX_DEPTH = 256
"""How often a share may be halved without a join in between; keeps recursion shallow."""

_ALL, _LEFT, _RIGHT, _BOTH = range(4)


def norm_share(left: Share, right: Share) -> Share:
    """Make the normal form of a node: halves that own nothing, or all, merge."""
    return left if isinstance(left, int) and left == right else (left, right)


def split(share: Share) -> tuple[Share, Share]:
    """Divide a share into two (the paper's split)."""
    if isinstance(share, int):
        return (0, 0) if share == 0 else ((1, 0), (0, 1))
    left, right = share
    if left == 0:
        a, b = split(right)
        return (0, a), (0, b)
    if right == 0:
        a, b = split(left)
        return (a, 0), (b, 0)
    return (left, 0), (0, right)


def add(a: Share, b: Share) -> Share:
    """Join two shares (the paper's sum); `ClockError` if both own a part."""
    if a == 0:
        return b
    if b == 0:
        return a
    if isinstance(a, int) or isinstance(b, int):
        raise ClockError("both own the same share: an instance was copied, or handed over twice, instead of forked")
    return norm_share(add(a[0], b[0]), add(a[1], b[1]))


def depth_of(share: Share) -> int:
    """Return the length of the longest path."""
    return 0 if isinstance(share, int) else 1 + max(depth_of(share[0]), depth_of(share[1]))


def write_share(out: BitWriter, share: Share) -> None:
    """Write two bits for each node: all of it, its left half, its right half, or both. The share must own something."""
    if isinstance(share, int):
        out.put(_ALL, 2)
        return
    left, right = share
    out.put(_RIGHT if left == 0 else _LEFT if right == 0 else _BOTH, 2)
    for half in share:
        if half != 0:
            write_share(out, half)


def read_share(read: BitReader, depth: int = 0) -> Share:
    """Read what `write_share` wrote; `StampError` if it is too deep or not canonical."""
    owned = read.take(2)
    if owned == _ALL:
        return 1
    if depth >= MAX_DEPTH:
        raise StampError(f"a share must be at most {MAX_DEPTH} levels deep and is deeper: {DAMAGED}")
    left = 0 if owned == _RIGHT else read_share(read, depth + 1)
    right = 0 if owned == _LEFT else read_share(read, depth + 1)
    if left == right == 1:
        raise StampError(f"a share must be in its shortest form and is not: {DAMAGED}")
    return left, right
