"""Who owns which part: the id trees of Interval Tree Clocks.

``0`` owns nothing, ``1`` everything below, ``(left, right)`` what its halves own. Shares of live instances never overlap,
and a fork halves, so no one needs to know who else there is. Source: Almeida, Baquero and Fonte 2008, section 5.3.
"""

from __future__ import annotations

from typing import TypeAlias

from whence.clocks.errors import ClockError, StampError
from whence.clocks.itc.bits import BitReader, BitWriter

Share: TypeAlias = "int | tuple[Share, Share]"

MAX_DEPTH = 256
"""How often a share may be halved without a join in between; it keeps recursion shallow."""


def norm_share(left: Share, right: Share) -> Share:
    """The normal form of a node: halves that own nothing, or all, merge."""
    return left if isinstance(left, int) and left == right else (left, right)


def split(share: Share) -> tuple[Share, Share]:
    """The paper's split: two shares that deal out what this one owns."""
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
    """The paper's sum: what either owns; refused where both own a part."""
    if a == 0:
        return b
    if b == 0:
        return a
    if isinstance(a, int) or isinstance(b, int):
        raise ClockError("both own the same share: an instance was copied, or handed over twice, instead of forked")
    return norm_share(add(a[0], b[0]), add(a[1], b[1]))


def depth_of(share: Share) -> int:
    """The longest path."""
    return 0 if isinstance(share, int) else 1 + max(depth_of(share[0]), depth_of(share[1]))


def write_share(out: BitWriter, share: Share) -> None:
    """One bit a node, two a leaf."""
    if isinstance(share, int):
        out.put(share, 2)
    else:
        out.put(1, 1)
        write_share(out, share[0])
        write_share(out, share[1])


def read_share(read: BitReader, depth: int = 0) -> Share:
    """Read `write_share` back; depth and form are checked."""
    if not read.take(1):
        return read.take(1)
    if depth >= MAX_DEPTH:
        raise StampError(f"a share is at most {MAX_DEPTH} levels deep")
    left, right = read_share(read, depth + 1), read_share(read, depth + 1)
    if isinstance(left, int) and left == right:
        raise StampError("a share is written in its shortest form")
    return left, right
