"""The formats there are."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from whence.sources.contract import Source, SourceError
from whence.sources.jaeger import Jaeger
from whence.sources.json_lines import JsonLines
from whence.sources.mapped import Mapped
from whence.sources.otlp import Otlp
from whence.sources.shiviz import ShiViz
from whence.sources.tracing import Tracing
from whence.sources.zipkin import Zipkin

SOURCES: Final[dict[str, type[Source]]] = {
    "whence": JsonLines,
    "otlp": Otlp,
    "jaeger": Jaeger,
    "zipkin": Zipkin,
    "shiviz": ShiViz,
    "tracing": Tracing,
    "mapped": Mapped,
}
"""Every format by its name; the options of a format are the keyword arguments of what stands here."""


SPAN_FORMATS: Final = frozenset({"otlp", "jaeger", "zipkin"})
"""Formats of traces: rows are parts of spans, and times count nanoseconds whatever the files count."""


def known_format(format: str) -> type[Source]:
    """What makes the sources of a format; raises `SourceError` for one that does not exist."""
    if format not in SOURCES:
        raise SourceError(f"there is no format {format!r}; there are {', '.join(SOURCES)}")
    return SOURCES[format]


def format_options(format: str) -> tuple[str, ...]:
    """The names of a format's options."""
    return tuple(inspect.signature(known_format(format)).parameters)


def source(format: str, options: Mapping[str, Any]) -> Source:
    """The source of a format with these options; options that are ``None`` are as if not given.

    Raises `SourceError` for a format or an option that does not exist, or a value that means nothing.
    """
    known = format_options(format)
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known:
            raise SourceError(f"the format {format} has no option {name!r}; it has {', '.join(known)}")
    needed = inspect.signature(SOURCES[format]).parameters.values()
    for option in needed:
        if option.default is option.empty and option.name not in given:
            raise SourceError(f"the format {format} needs --{option.name}; see docs/sources.md")
    return SOURCES[format](**given)
