"""When a kernel is compiled, and what runs until then.

numba makes a loop about a hundred times faster, takes most of a second to import, and a second or more to compile one loop:
longer than all of a small log takes in plain Python. So a kernel starts as the Python function that it is. It is compiled
once the time that it has taken, and that the next call would take, comes to what compiling costs. A process that ends
soon compiles nothing; one that goes on comes to compiled speed by itself.

Results do not depend on the choice: integers wrap, arrays of a wrong type are refused, numbers are returned as Python's.
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

from whence.kernels.compiling import Recipe, Signature
from whence.kernels.values import as_python, check_arrays, elements_of, expected_arrays, same, separate_copies

F = TypeVar("F", bound=Callable[..., Any])

MODES: Final = ("auto", "plain", "compiled", "both")
SECONDS_AN_ELEMENT: Final = 0.4e-6
"""What plain Python takes for each element of the arrays that a kernel is given."""
SECONDS_TO_IMPORT: Final = 0.5
"""What numba takes."""
SECONDS_TO_LOAD: Final = 0.02
"""What a kernel takes that was compiled on this machine before."""
MOST_ELEMENTS_COMPARED: Final = 1_000
"""``both`` runs larger calls compiled only: plain Python would take too long."""


class Disagreement(AssertionError):
    """A kernel gave one result in plain Python and another one compiled."""


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
        elements = elements_of(arguments) if self._work is None else self._work(*arguments)
        if mode == "both" and self._may_be_plain and elements <= MOST_ELEMENTS_COMPARED:
            return self._run_both(arguments)
        expected = elements * SECONDS_AN_ELEMENT
        if not self._may_be_plain or self.pays(expected):
            return self._run_compiled(arguments)
        start = time.perf_counter()
        try:
            return self._run_plain(arguments)
        finally:
            # Loops within loops take longer than their arrays tell.
            self._count(time.perf_counter() - start - expected)

    def pays(self, seconds: float) -> bool:
        """Whether compiled code should do what takes so many seconds without it; if not, they count as spent.

        This kernel's time must come to the price of loading or compiling it, and the time of all kernels together to that
        and the import of numba.
        """
        if _state.mode != "auto":
            return _state.mode != "plain"
        if self._compiled is not None:
            return True
        own, total = self._seconds + seconds, _state.seconds + seconds
        if own > SECONDS_TO_LOAD and own > self._price and _numba_is_installed():
            to_import = 0.0 if "numba" in sys.modules else SECONDS_TO_IMPORT
            if total > self._price + to_import:
                return True
        self._count(seconds)
        return False

    def _count(self, seconds: float) -> None:
        # Threads may lose a part of the sum to each other: it is an estimate anyway.
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
            return as_python(self._function(*arguments))

    def _run_compiled(self, arguments: tuple[Any, ...]) -> Any:
        if _state.mode == "plain":
            raise RuntimeError(f"{self.name} runs compiled only, and WHENCE_KERNELS is 'plain'")
        with self._compiling:
            if self._compiled is None:
                self._compiled = self._recipe.compiled()
        self.called["compiled"] += 1
        return self._compiled(*arguments)

    def _run_both(self, arguments: tuple[Any, ...]) -> Any:
        others = separate_copies(arguments)
        found, other = self._run_compiled(arguments), self._run_plain(others)
        if not (same(found, other) and same(arguments, others)):
            raise Disagreement(
                f"{self.name} gave {found!r} compiled and {other!r} in plain Python, or left other arrays"
            )
        return found


def kernel(signature: Signature, *, work: Callable[..., int] | None = None, plain: bool = True) -> Callable[[F], F]:
    """Mark a function of arrays and numbers as one that is compiled where that pays.

    `signature` is numba's, as text, or a function that makes it from ``numba.types``. `work` takes the arguments and tells
    how many steps the function takes, where that is not about the number of elements in its arrays. One that is not
    `plain` is always compiled: whoever calls it asks `Kernel.pays` first.

    What a kernel calls is marked `whence.kernels.part` or `inlined`; kernels do not call kernels.
    """

    def marked(function: F) -> F:
        made = Kernel(function, signature, work, plain)
        KERNELS[made.name] = made
        return cast("F", made)

    return marked


KERNELS: Final[dict[str, Kernel]] = {}
"""Those of all modules imported so far, by name."""


class _State:
    """What all kernels of the process share."""

    def __init__(self, mode: str) -> None:
        if mode not in MODES:
            raise ValueError(f"WHENCE_KERNELS is one of {', '.join(MODES)}, not {mode!r:.40}")
        self.mode = mode
        self.seconds = 0.0


_state = _State(os.environ.get("WHENCE_KERNELS") or "auto")


@contextmanager
def running(mode: str) -> Iterator[None]:
    """Force one of `MODES` on all threads, for tests."""
    before, _state.mode = _state.mode, _State(mode).mode
    try:
        yield
    finally:
        _state.mode = before


@cache
def _numba_is_installed() -> bool:
    return find_spec("numba") is not None
