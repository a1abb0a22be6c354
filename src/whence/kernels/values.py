"""Arguments and results of kernels: what compiled code would refuse, and what it would return."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_ARRAY = re.compile(r"(\w+)\[([:,1 ]+)\]")
_READ_ARRAY = re.compile(r"Array\((\w+), (\d), 'C', True\)")


class ExpectedArray(NamedTuple):
    """What an argument must be for compiled code to take it."""

    dtype: np.dtype[Any]
    dimensions: int
    contiguous: bool
    written: bool

    def fits(self, given: Any) -> bool:
        return (
            isinstance(given, np.ndarray)
            and given.dtype == self.dtype
            and given.ndim == self.dimensions
            and (given.flags.c_contiguous or not self.contiguous)
            and (given.flags.writeable or not self.written)
        )


def expected_arrays(signature: str) -> tuple[ExpectedArray | None, ...]:
    """By argument of a signature in numba's spelling: which array it is; None for a number."""
    depth, start = 0, len(signature)
    pieces: list[str] = []
    stop = len(signature) - 1
    for at in range(len(signature) - 1, -1, -1):
        if signature[at] in ")]":
            depth += 1
        elif signature[at] in "([":
            depth -= 1
        if depth == 0 or (depth == 1 and signature[at] == ","):
            pieces.append(signature[at + 1 : stop].strip())
            stop = at
        if depth == 0:
            start = at
            break
    if start == len(signature):
        raise ValueError(f"a signature ends with its arguments in parentheses, not {signature!r}")
    return tuple(_expected(piece) for piece in reversed(pieces) if piece)


def _expected(argument: str) -> ExpectedArray | None:
    found = _READ_ARRAY.fullmatch(argument)
    if found:
        return ExpectedArray(_dtype(found[1]), int(found[2]), contiguous=True, written=False)
    found = _ARRAY.fullmatch(argument)
    if found:
        return ExpectedArray(_dtype(found[1]), found[2].count(",") + 1, found[2].endswith("::1"), written=True)
    return None


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(np.bool_ if name == "boolean" else name)


def check_arrays(name: str, expected: Sequence[ExpectedArray | None], arguments: Sequence[Any]) -> None:
    """Raise TypeError for an array that the compiled function would not take, so that small calls fail as large ones do."""
    for place, (wanted, given) in enumerate(zip(expected, arguments, strict=False)):
        if wanted is not None and not wanted.fits(given):
            raise TypeError(f"argument {place} of {name} does not fit: {wanted}, and it is {_described(given)}")


def _described(given: Any) -> str:
    if not isinstance(given, np.ndarray):
        return f"a {type(given).__name__}"
    flags = given.flags
    return f"{given.dtype} of {given.ndim} dimensions, contiguous={flags.c_contiguous}, writeable={flags.writeable}"


def elements_of(arguments: Sequence[Any]) -> int:
    """How many elements the arrays have, those in tuples included."""
    count = 0
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            count += argument.size
        elif isinstance(argument, tuple):
            count += elements_of(argument)
    return count


def as_python(result: Any) -> Any:
    """Numbers as Python's, as compiled code returns them; arrays as they are."""
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, tuple):
        return tuple(map(as_python, result))
    return result


def separate_copies(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same values in memory of their own; arrays that were one and the same memory still are."""
    made: dict[Any, Any] = {}

    def copied(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            where = (value.ctypes.data, value.shape, value.strides, value.dtype.str)
            return made.setdefault(where, value.copy())
        if isinstance(value, tuple):
            inside = map(copied, value)
            return type(value)(*inside) if hasattr(value, "_fields") else tuple(inside)
        return value

    return tuple(map(copied, arguments))


def same(one: Any, other: Any) -> bool:
    """Whether two results are equal, types and the types of elements included."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        exact = one.dtype == other.dtype and one.shape == other.shape
        return exact and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)
