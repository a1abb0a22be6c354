"""The formats there are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from whence.sources.contract import Source, SourceError
from whence.sources.json_lines import JsonLines
from whence.sources.shiviz import ShiViz

SOURCES: Final[dict[str, Callable[..., Source]]] = {
    "whence": JsonLines,
    "shiviz": ShiViz,
}
"""Every format by its name; the options of a format are the keyword arguments of what stands here."""


def source(format: str, options: Mapping[str, Any]) -> Source:
    """The source of a format with these options; options that are ``None`` are as if not given.

    Raises `SourceError` for a format or an option that does not exist, or a value that means nothing.
    """
    if format not in SOURCES:
        raise SourceError(f"there is no format {format!r}; there are {', '.join(SOURCES)}")
    make = SOURCES[format]
    given = {name: value for name, value in options.items() if value is not None}
    known = inspect.signature(make).parameters
    for name in given:
        if name not in known:
            raise SourceError(f"the format {format} has no option {name!r}; it has {', '.join(known)}")
    return make(**given)
