"""Keep pandas from being imported by commands and tasks, which do not use it."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any


def leave_pandas_out() -> None:
    """Let pyarrow convert values without importing pandas.

    At its first conversion pyarrow imports pandas, if it is installed, to recognise its columns: a third of a second.
    It tries once and keeps the result. An explicit conversion to pandas still works, and so does importing it.
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
