"""The formats there are, and `export`, which writes one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from whence.clocks.errors import WhenceError
from whence.export.dot import MOST_EVENTS, write_dot
from whence.export.otlp import write_otlp
from whence.export.perfetto import write_perfetto
from whence.export.selection import Selection, choose
from whence.export.spelling import DELIMITER, GOVECTOR_REGEX, REGEX
from whence.export.stretches import Stretches
from whence.export.tables import write_csv, write_parquet
from whence.export.times import CORRECTED, TIMES, WALL, Showing
from whence.export.vector_logs import write_govector, write_shiviz
from whence.history.questions.history import History

Write = Callable[[Stretches, BinaryIO, Showing], Iterator[int]]
"""Writes events, and gives the number of each piece once it is written."""


class ExportRefused(WhenceError):
    """What was asked for makes no sense in this format."""


@dataclass(frozen=True, slots=True)
class Format:
    """How a format is written."""

    write: Write
    times: str
    """Those that it shows unless it is told otherwise."""
    regex: str | None = None
    """The expression by which ShiViz, and whence, read it."""
    binary: bool = False


FORMATS: Final = {
    "shiviz": Format(write_shiviz, WALL, REGEX),
    "govector": Format(write_govector, WALL, GOVECTOR_REGEX),
    "perfetto": Format(write_perfetto, CORRECTED),
    "otlp": Format(write_otlp, CORRECTED),
    "csv": Format(write_csv, WALL),
    "parquet": Format(write_parquet, WALL, binary=True),
    "dot": Format(write_dot, WALL),
}
"""By name."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    format: str
    times: str
    events: int
    processes: int
    computations: int
    arrows: int | None
    """Of a diagram in time: one for each message."""
    arrows_left_out: int | None
    """Those that would have led to an earlier time."""
    regex: str | None
    delimiter: str | None
    """How ShiViz is told to read a log; the delimiter where there are several executions."""

    def to_json(self) -> dict[str, Any]:
        """The fields that say something."""
        every = {name: getattr(self, name) for name in Exported.__slots__}
        return {name: value for name, value in every.items() if value is not None}


def export(
    history: History,
    format: str,
    sink: BinaryIO,
    *,
    selection: Selection | None = None,
    times: str | None = None,
    any_size: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Exported:
    """Write the selected events, all unless told otherwise, in a format of `FORMATS` to a file.

    `times` chooses between wall and corrected times where a format shows one of them. `on_progress` gets the number of
    events written so far. Nothing is written twice and nothing but the sink is touched; if this raises, what the sink has
    is of no use.

    Raises `ExportRefused` for a format or times that there are not, and for a graph that no screen can show, unless
    `any_size`.
    """
    if format not in FORMATS:
        raise ExportRefused(f"there is no format {format!r}; there are {', '.join(FORMATS)}")
    form = FORMATS[format]
    shown = times or form.times
    if shown not in TIMES:
        raise ExportRefused(f"times are {' or '.join(TIMES)}, not {shown!r}")
    stretches = Stretches(history.run, selection if selection is not None else choose(history))
    if format == "dot" and stretches.total > MOST_EVENTS and not any_size:
        raise ExportRefused(
            f"a graph of {stretches.total:,} events cannot be laid out, and {MOST_EVENTS:,} are the most that are tried: "
            "choose fewer with --around EVENT -k N or --process NAME, or insist with --force-size"
        )
    showing = Showing(shown)
    events = 0
    for piece in form.write(stretches, sink, showing):
        events += piece
        on_progress(events)
    return Exported(
        format,
        shown,
        events,
        int((stretches.selection.codes & (history.run.processes.events > 0)).sum()),
        stretches.exported_computations,
        showing.arrows,
        showing.arrows_left_out,
        form.regex,
        DELIMITER if form.regex is not None and stretches.exported_computations > 1 else None,
    )
