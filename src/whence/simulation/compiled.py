"""The one place where simulation kernels meet numba, with types that survive its decorators.

HAZARD: numba's cache notices a change of the file a kernel is in, not of the files it calls into. After editing
`draws.py`, `flight.py` or `stamping.py`, delete the `__pycache__` folders.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

types: Any = numba.types
"""What signatures are made of."""


def kernel(signature: Any) -> Callable[[F], F]:
    """Compile for this signature at the first call, and keep the machine code on disk for later processes.

    Not at import: the first time ever it takes seconds, which nobody should pay who only builds a `Model`.
    """

    def deferred(function: F) -> F:
        compiled: Any = None

        @wraps(function)
        def call(*arguments: Any) -> Any:
            nonlocal compiled
            if compiled is None:
                compiled = numba.njit(signature, cache=True)(function)
            return compiled(*arguments)

        return cast("F", call)

    return deferred


def part(function: F) -> F:
    """A piece of a kernel, woven into its callers: a call would count references to every array it is given."""
    return cast("F", numba.njit(function, inline="always"))
