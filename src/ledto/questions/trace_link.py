"""Link events to the traces that they are part of, in Jaeger, Tempo or another tool.

The environment variable ``LEDTO_TRACE_LINK`` has the address of a trace in that tool, with ``{trace}`` and perhaps
``{span}`` in it::

    LEDTO_TRACE_LINK='https://jaeger.example.org/trace/{trace}?uiFind={span}'
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ledto.history.errors import HistoryError

VARIABLE: Final = "LEDTO_TRACE_LINK"
_LINE_OF_SPAN: Final = re.compile(r"(?P<trace>[0-9a-f]{16}|[0-9a-f]{32})(?:/(?P<span>[0-9a-f]{16}))?")
"""The line of a span or of a log record within one, as the sources of OTLP, Jaeger and Zipkin name it."""
_TEMPLATE: Final = re.compile(r"https?://[^\s\"'<>\\`{}]*(?:\{(?:trace|span)\}[^\s\"'<>\\`{}]*)*")


class BadTraceLink(HistoryError):
    """The environment variable has no address with ``{trace}`` in it."""


@dataclass(frozen=True, slots=True)
class TraceLink:
    """The address of a trace in another tool, with ``{trace}`` in it."""

    template: str

    def fill(self, line: str | None) -> str | None:
        """Give the address for an event of this line; None if the line is not one of a trace."""
        ids = _LINE_OF_SPAN.fullmatch(line or "")
        if ids is None:
            return None
        return self.template.replace("{trace}", ids["trace"]).replace("{span}", ids["span"] or "")


def read_trace_link(environ: Mapping[str, str] = os.environ) -> TraceLink | None:
    """Read the environment variable; None if it is not set or empty. Raises `BadTraceLink`."""
    template = environ.get(VARIABLE)
    if not template:
        return None
    if "{trace}" not in template or _TEMPLATE.fullmatch(template) is None:
        raise BadTraceLink(
            f"{VARIABLE} is an address with {{trace}} in it, and {{span}} if you like, such as "
            f"https://jaeger.example.org/trace/{{trace}}, not {template!r:.200}"
        )
    return TraceLink(template)
