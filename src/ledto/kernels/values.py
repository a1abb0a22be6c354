"""Treat arguments and results of plain Python as compiled code does: refuse the same arrays, return the same types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_ARRAY = re.compile(r"(\w+)\[([:,1 ]+)\]")
_READ_ARRAY = re.compile(r"Array\((\w+), (\d), 'C', True\)")


class ExpectedArray(NamedTuple):
    """The array type that compiled code accepts as an argument."""

    dtype: np.dtype[Any]
    dimensions: int
    contiguous: bool
    written: bool

    def fits(self, value: Any) -> bool:
        return (
            isinstance(value, np.ndarray)
            and value.dtype == self.dtype
            and value.ndim == self.dimensions
            and (value.flags.c_contiguous or not self.contiguous)
            and (value.flags.writeable or not self.written)
        )


def expected_arrays(signature: str) -> tuple[ExpectedArray | None, ...]:
    """Parse a signature in numba's spelling: for each argument its array type; None for a number."""
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
    match = _READ_ARRAY.fullmatch(argument)
    if match:
        return ExpectedArray(_dtype(match[1]), int(match[2]), contiguous=True, written=False)
    match = _ARRAY.fullmatch(argument)
    if match:
        return ExpectedArray(_dtype(match[1]), match[2].count(",") + 1, match[2].endswith("::1"), written=True)
    return None


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(np.bool_ if name == "boolean" else name)


def check_arrays(name: str, expected: Sequence[ExpectedArray | None], arguments: Sequence[Any]) -> None:
    """Raise TypeError for an array that the compiled function would refuse, so that small calls fail as large ones do."""
    for index, (needed, value) in enumerate(zip(expected, arguments, strict=False)):
        if needed is not None and not needed.fits(value):
            raise TypeError(f"argument {index} of {name} does not fit: needs {needed}, found {_describe(value)}")


def _describe(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return f"a {type(value).__name__}"
    flags = value.flags
    return f"{value.dtype} of {value.ndim} dimensions, contiguous={flags.c_contiguous}, writeable={flags.writeable}"


def count_elements(arguments: Sequence[Any]) -> int:
    """Count the elements of the arrays, those in tuples included."""
    count = 0
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            count += argument.size
        elif isinstance(argument, tuple):
            count += count_elements(argument)
    return count


def to_python(result: Any) -> Any:
    """Convert numbers to Python's, as compiled code returns them; leave arrays as they are."""
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, tuple):
        return tuple(map(to_python, result))
    return result


def copy_arguments(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy the values; arrays that shared one memory share one copy."""
    copies: dict[Any, Any] = {}

    def copy(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            memory = (value.ctypes.data, value.shape, value.strides, value.dtype.str)
            return copies.setdefault(memory, value.copy())
        if isinstance(value, tuple):
            items = map(copy, value)
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value

    return tuple(map(copy, arguments))


def are_same(one: Any, other: Any) -> bool:
    """Tell whether two results are equal, including their types and the types of elements."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        exact = one.dtype == other.dtype and one.shape == other.shape
        return exact and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(are_same, one, other))
    return type(one) is type(other) and bool(one == other)
