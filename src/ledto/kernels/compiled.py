"""Compile kernels with numba, and keep machine code on disk. No other module imports numba.

Compiled code is kept in a folder named by the hash of what it was made from: the source of the kernel and of all its
parts, and the constants that they name. So a change of any of them is noticed; numba alone looks at the kernel's own
file.
"""

from __future__ import annotations

import inspect
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, Final, Literal, TypeVar

import numpy as np

from ledto.folders import lasting_folder

F = TypeVar("F", bound=Callable[..., Any])
Signature = str | Callable[[Any], Any]
Inlining = Literal["never", "always"]

SECONDS_A_CODE_BYTE: Final = 0.0007
"""The time of compiling for each byte of the Python code of a kernel and its parts."""

_PARTS: Final[dict[Callable[..., Any], Inlining]] = {}
_compiled_parts: Final[dict[Callable[..., Any], Any]] = {}
_compiling = threading.Lock()


def part(function: F) -> F:
    """Mark a function that kernels call; it stays a Python function, and is compiled along with them."""
    _PARTS[function] = "never"
    return function


def inlined(function: F) -> F:
    """Mark a function whose body is put into the kernels that call it.

    A call would count references to every array argument. Inlining takes longer to compile.
    """
    _PARTS[function] = "always"
    return function


class Recipe:
    """How to compile a kernel."""

    def __init__(self, function: Callable[..., Any], signature: Signature) -> None:
        self._function = function
        self._signature = signature

    def compile(self) -> Callable[..., Any]:
        """Compile the function, or load it from disk; raises ModuleNotFoundError without numba."""
        import numba

        with _compiling:
            function = _with_compiled_parts(self._function)
            signature = self._signature if isinstance(self._signature, str) else self._signature(numba.types)
            if self._folder is not None:
                config: Any = numba.config
                before, config.CACHE_DIR = config.CACHE_DIR, str(self._folder)
                try:
                    return numba.njit(signature, cache=True, nogil=True)(function)
                except Exception:  # A full or damaged folder only costs time.
                    pass
                finally:
                    config.CACHE_DIR = before
            return numba.njit(signature, nogil=True)(function)

    def is_on_disk(self) -> bool:
        """Tell whether machine code is kept; numba checks whether it is for this processor."""
        return self._folder is not None and self._folder.is_dir() and any(self._folder.rglob("*.nbc"))

    def seconds_to_compile(self) -> float:
        """Estimate the time of compiling."""
        return SECONDS_A_CODE_BYTE * sum(len(function.__code__.co_code) for function in _with_parts(self._function))

    @cached_property
    def _folder(self) -> Path | None:
        folder = cache_folder()
        if folder is None:
            return None
        made_from = sha256()
        for function in _with_parts(self._function):
            try:
                made_from.update(inspect.getsource(function).encode())
            except OSError:  # Only byte code is installed, and numba keeps nothing without the source.
                return None
            for name in function.__code__.co_names:
                made_from.update(f"{name}={_constant(function.__globals__.get(name))}\n".encode())
        return folder / f"{self._function.__name__}-{made_from.hexdigest()[:16]}"


def _with_compiled_parts(function: Any) -> FunctionType:
    """Copy the function so that it calls compiled parts instead of plain ones."""
    import numba

    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        called = names.get(name)
        if callable(called) and called in _PARTS:
            if called not in _compiled_parts:
                _compiled_parts[called] = numba.njit(_with_compiled_parts(called), inline=_PARTS[called])
            names[name] = _compiled_parts[called]
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy


def _with_parts(function: Callable[..., Any]) -> list[Any]:
    """List the function, the parts that it calls, and the parts that they call."""
    functions: list[Any] = [function]
    for caller in functions:
        called = (caller.__globals__.get(name) for name in caller.__code__.co_names)
        functions += [callee for callee in called if callable(callee) and callee in _PARTS and callee not in functions]
    return functions


def _constant(value: Any) -> str:
    """Spell a value that a kernel names; empty for what is not a constant."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{sha256(value.tobytes()).hexdigest()}"
    return repr(value) if isinstance(value, int | float | str | bytes | tuple | np.generic) else ""


@cache
def cache_folder() -> Path | None:
    """Choose where compiled code is kept: NUMBA_CACHE_DIR, beside the package, or in a private folder below TMPDIR.

    None if no folder can be written: then each process compiles for itself.
    """
    return next((folder for folder in _candidates() if _is_writable(folder)), None)


def _candidates() -> Iterator[Path]:
    # Code that checks bounds is different, and numba would not notice.
    name = "kernels-checked" if os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0") else "kernels"
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen) / name
    else:
        yield Path(__file__).parent / "__pycache__" / name
    # Compiled code is loaded and run: nobody else may be able to write there.
    with suppress(OSError):
        yield lasting_folder("ledto-compiled") / name


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
