"""A graph for Graphviz: a cluster a process, its events in a row, and an edge for each message.

Edges are solid where it is recorded that the one led to the other, dashed where the two only share a process, and dotted
where it is assumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from whence.export.spelling import label
from whence.export.stretches import Stretches
from whence.export.times import Showing
from whence.history.questions.event import Event

MOST_EVENTS = 5_000
"""More than this, no layout of Graphviz ends in reasonable time, and no screen shows."""


def write_dot(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """The whole graph. Gives the number of events after each piece."""
    sink.write(b'digraph history {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname="sans-serif"];\n')
    several = stretches.exported_computations > 1
    last: dict[int, int] = {}
    for stretch in stretches.each():
        lines: list[str] = []
        for row, (event, code) in enumerate(zip(stretches.events(stretch), stretch.code.tolist(), strict=True)):
            title = f"{event.process}\n{event.computation}" if several else event.process
            # A cluster that is opened again goes on.
            opened = f"  subgraph cluster_{code} {{ "
            if code not in last:
                opened += f"label={_quoted(title)}; "
            lines.append(f"{opened}e{event.position} [label={_quoted(_text(event))}{_tooltip(event, showing)}]; }}\n")
            before = last.get(code)
            follows = stretch.follows[row] if stretch.follows is not None else [] if before is None else [before]
            lines += [
                f"  e{cause} -> e{event.position} [weight=10, arrowhead=none];\n" for cause in sorted(set(follows))
            ]
            if before is not None and before not in follows:
                lines.append(f"  e{before} -> e{event.position} [weight=10, arrowhead=none, style=dashed];\n")
            for cause, assumed in stretch.told_causes_of(row):
                if cause not in follows:
                    style = ", style=dotted" if assumed else ""
                    lines.append(f"  e{cause} -> e{event.position} [color=blue{style}];\n")
            last[code] = event.position
        sink.write("".join(lines).encode())
        yield len(stretch)
    sink.write(b"}\n")


def _text(event: Event) -> str:
    return f"{label(event)}\n{event.id}" if label(event) != event.id else event.id


def _tooltip(event: Event, showing: Showing) -> str:
    time = showing.time_of(event)
    return "" if time is None else f", tooltip={_quoted(f'{showing.times} time {time}')}"


def _quoted(text: str) -> str:
    r"""A string of Graphviz: backslashes doubled, because it knows escapes such as ``\N``."""
    spelt = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "\\r").replace("\n", "\\n").replace("\0", " ")
    return f'"{spelt}"'
