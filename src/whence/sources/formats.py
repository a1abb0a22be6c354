"""List the text formats, and make their sources."""

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
"""The class of each format by name. Its keyword arguments are the options of the format."""


SPAN_FORMATS: Final = frozenset({"otlp", "jaeger", "zipkin"})
"""Formats of traces. Their rows are parts of spans, with times in nanoseconds."""


def known_format(format: str) -> type[Source]:
    """Return the class of a format. Raises `SourceError` for an unknown one."""
    if format not in SOURCES:
        raise SourceError(f"there is no format {format!r}; there are {', '.join(SOURCES)}")
    return SOURCES[format]


def format_options(format: str) -> tuple[str, ...]:
    """Return the names of a format's options."""
    return tuple(inspect.signature(known_format(format)).parameters)


def source(format: str, options: Mapping[str, Any]) -> Source:
    """Make the source of a format with these options. Options that are None count as left out.

    Raises `SourceError` for an unknown format or option, for an option that is missing, and for a wrong value.
    """
    allowed = format_options(format)
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in chosen:
        if name not in allowed:
            raise SourceError(f"the format {format} has no option {name!r}; it has {', '.join(allowed)}")
    for option in inspect.signature(SOURCES[format]).parameters.values():
        if option.default is option.empty and option.name not in chosen:
            raise SourceError(f"the format {format} needs --{option.name}; see docs/sources.md")
    return SOURCES[format](**chosen)
