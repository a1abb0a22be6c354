"""Decide when a kernel is compiled; run it as plain Python until then.

numba makes a loop about a hundred times faster, takes most of a second to import, and a second or more to compile one
loop: longer than plain Python needs for a small log. So a kernel starts as the Python function that it is. It is
compiled once the time that it has taken, and that the next call would take, reaches the price of compiling. A process
that ends soon compiles nothing; a longer one reaches compiled speed by itself.

Results do not depend on the choice: integers wrap, arrays of a wrong type are refused, numbers are returned as
Python's.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, update_wrapper
from importlib.util import find_spec
from typing import Any, Final, TypeVar, cast

import numpy as np

from ledto.kernels.compiled import Recipe, Signature
from ledto.kernels.values import are_same, check_arrays, copy_arguments, count_elements, expected_arrays, to_python

F = TypeVar("F", bound=Callable[..., Any])

MODES: Final = ("auto", "plain", "compiled", "both")
"""The values of LEDTO_KERNELS."""
SECONDS_AN_ELEMENT: Final = 0.4e-6
"""The time of plain Python for each element of the arrays."""
SECONDS_TO_IMPORT: Final = 0.5
"""The time of importing numba."""
SECONDS_TO_LOAD: Final = 0.02
"""The time of loading a kernel that was compiled on this machine before."""
MOST_ELEMENTS_COMPARED: Final = 1_000
"""``both`` runs larger calls compiled only: plain Python would take too long."""


class Disagreement(AssertionError):
    """A kernel gave different results in plain Python and compiled."""


class Kernel:
    """A function of arrays and numbers, in plain Python or compiled; safe to call from several threads."""

    def __init__(
        self, function: Callable[..., Any], signature: Signature, work: Callable[..., int] | None, plain: bool
    ) -> None:
        update_wrapper(self, function)
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.called = {"plain": 0, "compiled": 0}
        """How often it ran each way in this process."""
        self._function = function
        self._recipe = Recipe(function, signature)
        self._expected = expected_arrays(signature) if isinstance(signature, str) else ()
        self._work = work
        self._may_be_plain = plain
        self._compiled: Callable[..., Any] | None = None
        self._compiling = threading.Lock()
        self._seconds = 0.0

    def __reduce__(self) -> str:
        """Pickle by name, as functions are."""
        return self._function.__qualname__

    def __call__(self, *arguments: Any) -> Any:
        mode = _state.mode
        if mode == "auto" and self._compiled is not None:
            self.called["compiled"] += 1
            return self._compiled(*arguments)
        elements = count_elements(arguments) if self._work is None else self._work(*arguments)
        if mode == "both" and self._may_be_plain and elements <= MOST_ELEMENTS_COMPARED:
            return self._run_both(arguments)
        expected = elements * SECONDS_AN_ELEMENT
        if not self._may_be_plain or self.count_and_decide(expected):
            return self._run_compiled(arguments)
        start = time.perf_counter()
        try:
            return self._run_plain(arguments)
        finally:
            # Nested loops take longer than the sizes of their arrays suggest.
            self._count(time.perf_counter() - start - expected)

    def count_and_decide(self, seconds: float) -> bool:
        """Tell whether to run compiled what takes so many seconds in plain Python; if not, count them as spent.

        The time of this kernel must reach the price of loading or compiling it, and the time of all kernels together
        that price and the import of numba.
        """
        if _state.mode != "auto":
            return _state.mode != "plain"
        if self._compiled is not None:
            return True
        this_kernel, all_kernels = self._seconds + seconds, _state.seconds + seconds
        if this_kernel > SECONDS_TO_LOAD and this_kernel > self._price and _numba_is_installed():
            to_import = 0.0 if "numba" in sys.modules else SECONDS_TO_IMPORT
            if all_kernels > self._price + to_import:
                return True
        self._count(seconds)
        return False

    def _count(self, seconds: float) -> None:
        # Not locked: threads may overwrite a part of the sum, which is an estimate anyway.
        if seconds > 0:
            self._seconds += seconds
            _state.seconds += seconds

    @cached_property
    def _price(self) -> float:
        return SECONDS_TO_LOAD if self._recipe.is_on_disk() else self._recipe.seconds_to_compile()

    def _run_plain(self, arguments: tuple[Any, ...]) -> Any:
        check_arrays(self.name, self._expected, arguments)
        self.called["plain"] += 1
        with np.errstate(all="ignore"):
            return to_python(self._function(*arguments))

    def _run_compiled(self, arguments: tuple[Any, ...]) -> Any:
        if _state.mode == "plain":
            raise RuntimeError(f"{self.name} runs compiled only, and LEDTO_KERNELS is 'plain': choose another mode")
        with self._compiling:
            if self._compiled is None:
                self._compiled = self._recipe.compile()
        self.called["compiled"] += 1
        return self._compiled(*arguments)

    def _run_both(self, arguments: tuple[Any, ...]) -> Any:
        plain_arguments = copy_arguments(arguments)
        result, plain_result = self._run_compiled(arguments), self._run_plain(plain_arguments)
        if not (are_same(result, plain_result) and are_same(arguments, plain_arguments)):
            raise Disagreement(
                f"{self.name} gave {result!r} compiled and {plain_result!r} in plain Python, or changed its arrays "
                "differently"
            )
        return result


def kernel(signature: Signature, *, work: Callable[..., int] | None = None, plain: bool = True) -> Callable[[F], F]:
    """Mark a function of arrays and numbers that is compiled when that pays.

    `signature` is numba's, as text, or a function that makes it from ``numba.types``. `work` takes the arguments and
    returns the number of steps, if that is not about the number of elements in the arrays. With ``plain=False`` it
    always runs compiled: callers ask `Kernel.count_and_decide` first.

    Functions that a kernel calls are marked `ledto.kernels.part` or `inlined`; kernels do not call kernels.
    """

    def mark(function: F) -> F:
        wrapped = Kernel(function, signature, work, plain)
        KERNELS[wrapped.name] = wrapped
        return cast("F", wrapped)

    return mark


KERNELS: Final[dict[str, Kernel]] = {}
"""The kernels of all modules imported so far, by name."""


class _KernelsState:
    """What all kernels of the process share."""

    def __init__(self, mode: str) -> None:
        if mode not in MODES:
            raise ValueError(f"LEDTO_KERNELS is one of {', '.join(MODES)}, not {mode!r:.40}")
        self.mode = mode
        self.seconds = 0.0


_state = _KernelsState(os.environ.get("LEDTO_KERNELS") or "auto")


@contextmanager
def force_mode(mode: str) -> Iterator[None]:
    """Force one of `MODES` on all threads, for tests."""
    before, _state.mode = _state.mode, _KernelsState(mode).mode
    try:
        yield
    finally:
        _state.mode = before


@cache
def _numba_is_installed() -> bool:
    return find_spec("numba") is not None
