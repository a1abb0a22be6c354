"""Keeps pandas out of commands and of tasks, none of which uses it."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any


def leave_pandas_out() -> None:
    """Let pyarrow convert values without importing pandas.

    At its first conversion pyarrow imports pandas, if it is installed, to know its columns when it sees them: a third of a
    second. It asks once and keeps the answer. An explicit conversion to pandas still works, and so does importing it.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)


class _Hidden(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is left out", name=fullname)
