"""Sets of natural numbers with a short spelling, and shares of them: names for events without coordination.

A share (`ledto.clocks.itc.id_tree`) owns numbers: the left half of a node owns its even-placed numbers, the right half
the odd-placed ones. So shares that do not overlap own different numbers, and each owns infinitely many. An event's name
is an unused number of its instance's share.

An instance whose share cannot be halved any further opens a new *line* of numbers instead, named after the event that
opened it; a root is the first line.

A set of used numbers is a tree over the same halves: ``k`` means that the first k numbers here are used, ``(left,
right)`` describes the halves. Halves that together are a first run merge into one number. So a set is small when its
numbers are used evenly, and `choose` picks the number that evens out most: an instance uses up the numbers that one
which joined it had left unused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ledto.clocks.itc.bits import BitReader, BitWriter
from ledto.clocks.itc.id_tree import Share, add
from ledto.clocks.wire import DAMAGED, MAX_COUNTER
from ledto.errors import StampError

Used: TypeAlias = "int | tuple[Used, Used]"
"""A set of used numbers."""

HALVINGS = 24
"""How often a share is halved: an instance that owns 1 in 2**24 numbers opens a new line before it shares that out. So
numbers stay within 63 bits and sets stay shallow, however many instances one of them starts."""
PATIENCE = 16
"""How many numbers may be used to make two halves a first run again, before the least unused number is preferred."""

# A prefix code for the nodes below the top: a leaf, or a node whose right, left or both halves differ from the
# first run they share, at the height of the node above (0) or raised (+). Frequent symbols are short.
_CODES = {"leaf": "00", "R0": "01", "L0": "100", "R+": "101", "B+": "110", "L+": "1110", "B0": "1111"}
_SYMBOLS = {code: symbol for symbol, code in _CODES.items()}
_TOP_ORDER, _LEAF_ORDER, _RAISE_ORDER = 9, 3, 1


def halves(used: Used) -> tuple[Used, Used]:
    """Split the set into its even-placed and its odd-placed numbers."""
    return ((used + 1) // 2, used // 2) if isinstance(used, int) else used


def norm(left: Used, right: Used) -> Used:
    """Join two halves into a set in normal form."""
    if isinstance(left, int) and isinstance(right, int) and 0 <= left - right <= 1:
        return left + right
    return left, right


def union(a: Used, b: Used) -> Used:
    """Return the numbers in either set."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    (a_left, a_right), (b_left, b_right) = halves(a), halves(b)
    return norm(union(a_left, b_left), union(a_right, b_right))


def contains(used: Used, number: int) -> bool:
    """Tell whether a number is in the set."""
    while not isinstance(used, int):
        used = used[number & 1]
        number >>= 1
    return number < used


def use(used: Used, number: int) -> Used:
    """Add an unused number to the set."""
    if used == number:
        return number + 1
    left, right = halves(used)
    return norm(left, use(right, number >> 1)) if number & 1 else norm(use(left, number >> 1), right)


def first_run(used: Used) -> int:
    """Count the numbers from 0 on that are in the set without a gap."""
    return used if isinstance(used, int) else min(2 * first_run(used[0]), 2 * first_run(used[1]) + 1)


def numbers(used: Used) -> Iterator[int]:
    """Yield every number in the set, half by half."""
    if isinstance(used, int):
        yield from range(used)
    else:
        for half, place in zip(used, (0, 1), strict=True):
            for number in numbers(half):
                yield 2 * number + place


def choose(used: Mapping[str, Used], shares: Mapping[str, Share]) -> tuple[str, int]:
    """Choose the line, and the unused number of its share, for a new event."""
    candidates = []
    for line, share in shares.items():
        candidate = _nearest_merge(used.get(line, 0), share)
        if candidate is not None and candidate.to_use <= PATIENCE:
            candidates.append((candidate, line))
    if candidates:
        best, line = min(candidates)
        return line, best.number
    line = max(shares, key=lambda name: first_run(used.get(name, 0)))
    return line, _least(used.get(line, 0), shares[line])


class _Candidate(NamedTuple):
    """A number that brings two halves nearer to merging; the smallest candidate is the best."""

    to_use: int
    """How many numbers are still to be used after it, until the halves merge."""
    height: int
    """Minus the depth of the halves: deeper ones merge first."""
    number: int


def _nearest_merge(used: Used, share: Share, depth: int = 0) -> _Candidate | None:
    """Find the number that brings two halves nearest to merging; None if the share owns none such."""
    if share == 0 or isinstance(used, int):
        return None
    left, right = used
    left_share, right_share = (share, share) if isinstance(share, int) else share
    candidates = []
    if isinstance(left, int) and isinstance(right, int):
        if left > right and right_share == 1:
            candidates.append(_Candidate(left - right - 1, -depth, 2 * right + 1))
        elif right > left and left_share == 1:
            candidates.append(_Candidate(right - left, -depth, 2 * left))
    for half, half_share, place in ((left, left_share, 0), (right, right_share, 1)):
        below = _nearest_merge(half, half_share, depth + 1)
        if below is not None:
            candidates.append(below._replace(number=2 * below.number + place))
    return min(candidates, default=None)


def _least(used: Used, share: Share) -> int:
    """Find the least unused number of a share that owns something."""
    if share == 1 and isinstance(used, int):
        return used
    left_share, right_share = (share, share) if isinstance(share, int) else share
    left, right = halves(used)
    if left_share == 0:
        return 2 * _least(right, right_share) + 1
    if right_share == 0:
        return 2 * _least(left, left_share)
    return min(2 * _least(left, left_share), 2 * _least(right, right_share) + 1)


def deal(shares: Mapping[str, Share]) -> tuple[dict[str, Share], dict[str, Share]] | None:
    """Split shares into two parts of about equal size; None if all pieces were halved `HALVINGS` times.

    Equal sizes keep numbers even; few cuts keep the trees small. Of several whole lines the second part gets one: they
    come from many instances that lived at once, and will be needed when as many live again.
    """
    whole = [line for line, share in shares.items() if share == 1]
    if len(whole) > 1:
        last = max(whole)
        return {line: share for line, share in shares.items() if line != last}, {last: 1}
    pieces = sorted((depth, line, path) for line, share in shares.items() for depth, path in _pieces(share))
    first, second = _deal_pieces(pieces)
    if pieces[0][0] < HALVINGS and not _weight(second) / 2 <= _weight(first) <= 2 * _weight(second):
        depth, line, path = pieces[0]
        halved = [(depth + 1, line, path), (depth + 1, line, path | 1 << depth)]
        first, second = _deal_pieces(sorted(halved + pieces[1:]))
    return (_join_pieces(first), _join_pieces(second)) if second else None


_Piece: TypeAlias = tuple[int, str, int]
"""Depth, line, and the path to it with the topmost half in the lowest bit."""


def _pieces(share: Share, depth: int = 0, path: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the depth and the path of each part that the share owns."""
    if isinstance(share, int):
        if share:
            yield depth, path
    else:
        yield from _pieces(share[0], depth + 1, path)
        yield from _pieces(share[1], depth + 1, path | 1 << depth)


def _deal_pieces(pieces: Iterable[_Piece]) -> tuple[list[_Piece], list[_Piece]]:
    """Give each piece to the lighter of two parts."""
    first: list[_Piece] = []
    second: list[_Piece] = []
    for piece in pieces:
        (first if _weight(first) <= _weight(second) else second).append(piece)
    return first, second


def _weight(pieces: list[_Piece]) -> float:
    return sum(2.0**-depth for depth, _, _ in pieces)


def _join_pieces(pieces: list[_Piece]) -> dict[str, Share]:
    """Make shares of pieces."""
    shares: dict[str, Share] = {}
    for depth, line, path in pieces:
        piece: Share = 1
        for level in reversed(range(depth)):
            piece = (0, piece) if path >> level & 1 else (piece, 0)
        shares[line] = add(shares.get(line, 0), piece)
    return shares


def check_used(used: Used) -> Used:
    """Return the set if instances can have made it: no number over 63 bits, no deeper than shares are halved."""
    pending = [(used, 0, 0)]
    while pending:
        subset, depth, path = pending.pop()
        if depth > HALVINGS:
            raise StampError(f"a set of names must be at most {HALVINGS} levels deep and is deeper: {DAMAGED}")
        if not isinstance(subset, int):
            pending += (subset[0], depth + 1, path), (subset[1], depth + 1, path | 1 << depth)
        elif subset and (subset - 1 << depth | path) > MAX_COUNTER:
            raise StampError(f"an event's number must have at most 63 bits and has more: {DAMAGED}")
    return used


def write_used(out: BitWriter, used: Used) -> None:
    """Write the first run, and below it only what differs from it."""
    run = first_run(used)
    out.number(run, _TOP_ORDER)
    out.put(isinstance(used, int), 1)
    if not isinstance(used, int):
        _write_below(out, used, run, run)


def _write_below(out: BitWriter, used: tuple[Used, Used], run: int, base: int) -> None:
    (left, right), (left_run, right_run) = used, ((run + 1) // 2, run // 2)
    side = "R" if left == left_run else "L" if right == right_run else "B"
    _put_symbol(out, side + ("+" if run > base else "0"))
    if run > base:
        out.number(run - base - 1, _RAISE_ORDER)
    for half, half_run, other in ((left, left_run, "R"), (right, right_run, "L")):
        if side == other:
            continue
        reached = first_run(half)
        if isinstance(half, int):
            _put_symbol(out, "leaf")
            out.number(reached - half_run - 1, _LEAF_ORDER)
        else:
            _write_below(out, half, reached, half_run)


def read_used(read: BitReader) -> Used:
    """Read what `write_used` wrote; the caller checks that it is the canonical spelling."""
    run = read.number(_TOP_ORDER)
    if read.take(1):
        return run
    return check_used(_read_below(read, _take_symbol(read), run, 0, top=True))


def _read_below(read: BitReader, symbol: str, base: int, depth: int, *, top: bool = False) -> Used:
    if depth > HALVINGS:
        raise StampError(f"a set of names must be at most {HALVINGS} levels deep and is deeper: {DAMAGED}")
    if symbol == "leaf":
        if top:
            raise StampError(f"a set of names must start with its halves and does not: {DAMAGED}")
        return base + 1 + read.number(_LEAF_ORDER)
    run = base + 1 + read.number(_RAISE_ORDER) if symbol[1] == "+" else base
    left: Used = (run + 1) // 2
    right: Used = run // 2
    if symbol[0] != "R":
        left = _read_below(read, _take_symbol(read), (run + 1) // 2, depth + 1)
    if symbol[0] != "L":
        right = _read_below(read, _take_symbol(read), run // 2, depth + 1)
    return left, right


def write_member(out: BitWriter, used: Used, number: int) -> None:
    """Write one number of the set: the path down its tree, and its distance from the last number there, often 0."""
    while not isinstance(used, int):
        out.put(number & 1, 1)
        used, number = used[number & 1], number >> 1
    out.number(used - 1 - number, 1)


def read_member(read: BitReader, used: Used) -> int:
    """Read what `write_member` wrote."""
    path = depth = 0
    while not isinstance(used, int):
        place = read.take(1)
        path |= place << depth
        depth += 1
        used = used[place]
    number = used - 1 - read.number(1)
    if number < 0:
        raise StampError(f"an event's number must be in its set of names and is not: {DAMAGED}")
    return number << depth | path


def _put_symbol(out: BitWriter, symbol: str) -> None:
    code = _CODES[symbol]
    out.put(int(code, 2), len(code))


def _take_symbol(read: BitReader) -> str:
    code = ""
    while code not in _SYMBOLS:
        code += str(read.take(1))
    return _SYMBOLS[code]
