"""Sets of natural numbers that are easy to write down, and shares of them: how events get names without asking anyone.

A share (`whence.clocks.itc.shares`) is read as the numbers it owns: the left half of a node are its even-placed
numbers, the right half the odd-placed ones, so shares that do not overlap own different numbers, and each owns infinitely
many. An event takes an unused number of its instance's share for its name.

An instance whose share cannot be halved any further shares out a new *line* of numbers instead, named after the event that
opened it; a root is the first line.

A set of used numbers is a tree over the same halves: ``k`` says that the first k numbers here are used, ``(left, right)``
speaks of the halves. Where the halves together are a first run again, they merge back into one number. So a set is small
when its numbers are used evenly, and `choose` picks the number that evens out most: what one instance has left unused, the
instance that joins it uses up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from whence.clocks.errors import StampError
from whence.clocks.itc.bits import BitReader, BitWriter
from whence.clocks.itc.shares import Share, add
from whence.clocks.wire import MAX_COUNTER

Used: TypeAlias = "int | tuple[Used, Used]"

HALVINGS = 24
"""How often a share is halved: an instance that owns 1 in 2**24 numbers opens a line of its own before it shares that out.
So numbers stay within 63 bits and sets stay shallow, however many instances one of them starts."""
PATIENCE = 16
"""How many numbers may be spent to make two halves a first run again, before the least unused number is preferred."""

# One prefix code for what stands below the top: a leaf, or a node whose right, left or both halves differ from the
# first run they share, at the height of the node above (0) or raised (+). Frequent ones are short.
_CODES = {"leaf": "00", "R0": "01", "L0": "100", "R+": "101", "B+": "110", "L+": "1110", "B0": "1111"}
_SYMBOLS = {code: symbol for symbol, code in _CODES.items()}
_TOP_ORDER, _LEAF_ORDER, _RAISE_ORDER = 9, 3, 1


def halves(used: Used) -> tuple[Used, Used]:
    """The set as its even-placed and its odd-placed numbers."""
    return ((used + 1) // 2, used // 2) if isinstance(used, int) else used


def norm(left: Used, right: Used) -> Used:
    """The set of both halves, in normal form."""
    if isinstance(left, int) and isinstance(right, int) and 0 <= left - right <= 1:
        return left + right
    return left, right


def union(a: Used, b: Used) -> Used:
    """Numbers in either set."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    (a_left, a_right), (b_left, b_right) = halves(a), halves(b)
    return norm(union(a_left, b_left), union(a_right, b_right))


def contains(used: Used, number: int) -> bool:
    """Whether a number is in the set."""
    while not isinstance(used, int):
        used = used[number & 1]
        number >>= 1
    return number < used


def use(used: Used, number: int) -> Used:
    """The set with an unused number added."""
    if used == number:
        return number + 1
    left, right = halves(used)
    return norm(left, use(right, number >> 1)) if number & 1 else norm(use(left, number >> 1), right)


def first_run(used: Used) -> int:
    """How many numbers from 0 on are in the set without a gap."""
    return used if isinstance(used, int) else min(2 * first_run(used[0]), 2 * first_run(used[1]) + 1)


def numbers(used: Used) -> Iterator[int]:
    """Every number in the set, half by half."""
    if isinstance(used, int):
        yield from range(used)
    else:
        for half, place in zip(used, (0, 1), strict=True):
            for number in numbers(half):
                yield 2 * number + place


def choose(used: Mapping[str, Used], shares: Mapping[str, Share]) -> tuple[str, int]:
    """The line, and the unused number of its share, that a new event should take."""
    found = []
    for line, share in shares.items():
        near = _merging(used.get(line, 0), share)
        if near is not None and near[0] <= PATIENCE:
            found.append((near, line))
    if found:
        (_, _, number), line = min(found)
        return line, number
    line = max(shares, key=lambda each: first_run(used.get(each, 0)))
    return line, _least(used.get(line, 0), shares[line])


def _merging(used: Used, share: Share, depth: int = 0) -> tuple[int, int, int] | None:
    """The number that brings two halves nearest to merging: numbers still to spend, how deep (negative), the number."""
    if share == 0 or isinstance(used, int):
        return None
    left, right = used
    left_share, right_share = (share, share) if isinstance(share, int) else share
    found = []
    if isinstance(left, int) and isinstance(right, int):
        if left > right and right_share == 1:
            found.append((left - right - 1, -depth, 2 * right + 1))
        elif right > left and left_share == 1:
            found.append((right - left, -depth, 2 * left))
    for half, half_share, place in ((left, left_share, 0), (right, right_share, 1)):
        below = _merging(half, half_share, depth + 1)
        if below is not None:
            found.append((below[0], below[1], 2 * below[2] + place))
    return min(found, default=None)


def _least(used: Used, share: Share) -> int:
    """The least unused number of a share that owns something."""
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
    """Two parts of about equal size, or None where all there is was halved `HALVINGS` times.

    Equal sizes keep numbers even; few cuts keep the trees small. Of several whole lines the second part gets one: they come
    of many instances that lived at once, and will be wanted when as many do again.
    """
    whole = [line for line, share in shares.items() if share == 1]
    if len(whole) > 1:
        last = max(whole)
        return {line: share for line, share in shares.items() if line != last}, {last: 1}
    pieces = sorted((depth, line, path) for line, share in shares.items() for depth, path in _pieces(share))
    ours, theirs = _dealt(pieces)
    if pieces[0][0] < HALVINGS and not _weight(theirs) / 2 <= _weight(ours) <= 2 * _weight(theirs):
        depth, line, path = pieces[0]
        halved = [(depth + 1, line, path), (depth + 1, line, path | 1 << depth)]
        ours, theirs = _dealt(sorted(halved + pieces[1:]))
    return (_gathered(ours), _gathered(theirs)) if theirs else None


_Piece: TypeAlias = tuple[int, str, int]
"""Depth, line, and the path to it with the topmost half in the lowest bit."""


def _pieces(share: Share, depth: int = 0, path: int = 0) -> Iterator[tuple[int, int]]:
    if isinstance(share, int):
        if share:
            yield depth, path
    else:
        yield from _pieces(share[0], depth + 1, path)
        yield from _pieces(share[1], depth + 1, path | 1 << depth)


def _dealt(pieces: Iterable[_Piece]) -> tuple[list[_Piece], list[_Piece]]:
    ours: list[_Piece] = []
    theirs: list[_Piece] = []
    for piece in pieces:
        (ours if _weight(ours) <= _weight(theirs) else theirs).append(piece)
    return ours, theirs


def _weight(pieces: list[_Piece]) -> float:
    return sum(2.0**-depth for depth, _, _ in pieces)


def _gathered(pieces: list[_Piece]) -> dict[str, Share]:
    shares: dict[str, Share] = {}
    for depth, line, path in pieces:
        piece: Share = 1
        for level in reversed(range(depth)):
            piece = (0, piece) if path >> level & 1 else (piece, 0)
        shares[line] = add(shares.get(line, 0), piece)
    return shares


def bounded(used: Used) -> Used:
    """The set, if instances can have made it: no number over 63 bits, and no deeper than shares are halved."""
    pending = [(used, 0, 0)]
    while pending:
        each, depth, path = pending.pop()
        if depth > HALVINGS:
            raise StampError(f"a set of names is at most {HALVINGS} levels deep")
        if not isinstance(each, int):
            pending += (each[0], depth + 1, path), (each[1], depth + 1, path | 1 << depth)
        elif each and (each - 1 << depth | path) > MAX_COUNTER:
            raise StampError("an event's number has at most 63 bits")
    return used


def write_used(out: BitWriter, used: Used) -> None:
    """The first run, and below it only what differs from it."""
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
    """Read `write_used` back; the caller checks that it writes to the same bits."""
    run = read.number(_TOP_ORDER)
    if read.take(1):
        return run
    return bounded(_read_below(read, _take_symbol(read), run, 0, top=True))


def _read_below(read: BitReader, symbol: str, base: int, depth: int, *, top: bool = False) -> Used:
    if depth > HALVINGS:
        raise StampError(f"a set of names is at most {HALVINGS} levels deep")
    if symbol == "leaf":
        if top:
            raise StampError("a set of names starts with its halves")
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
    """One number of the set: the way down its tree, and how far it lies from the last one there, which it often is."""
    while not isinstance(used, int):
        out.put(number & 1, 1)
        used, number = used[number & 1], number >> 1
    out.number(used - 1 - number, 1)


def read_member(read: BitReader, used: Used) -> int:
    """Read `write_member` back."""
    path = depth = 0
    while not isinstance(used, int):
        place = read.take(1)
        path |= place << depth
        depth += 1
        used = used[place]
    number = used - 1 - read.number(1)
    if number < 0:
        raise StampError("an event's number is in its set of names")
    return number << depth | path


def _put_symbol(out: BitWriter, symbol: str) -> None:
    code = _CODES[symbol]
    out.put(int(code, 2), len(code))


def _take_symbol(read: BitReader) -> str:
    code = ""
    while code not in _SYMBOLS:
        code += str(read.take(1))
    return _SYMBOLS[code]
