"""Write the page about one incident as one HTML file, to read, to mail or to put into a post-mortem.

Takes an `Incident`: the event asked about, its last causes in causal order, other events right before it by wall clock,
and the history's counts. Gives the text of a page that needs no network, no scripts and no other files. Everything that
comes from logs is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ledto.questions import Event, Standing
from ledto.questions.trace_link import TraceLink
from ledto.web.diagram import (
    BYSTANDER,
    FOCUS,
    PAST,
    POSSIBLE,
    Dot,
    draw_diagram,
    find_arrows,
    format_duration,
    format_signed_duration,
    format_wall_time,
)
from ledto.web.gather import Incident, is_loud, label
from ledto.web.style import STYLE, escape

ROLE_TEXTS = {
    PAST: "before: it is recorded to have led to the event",
    POSSIBLE: "possible: it may have led to the event through what a process shares, or by an answer that is assumed",
    FOCUS: "the event asked about",
}
BYSTANDER_TEXTS = {
    Standing.CONCURRENT: "concurrent: neither can have led to the other",
    Standing.AFTER: "after: the event led to it",
    Standing.POSSIBLE: "possible the other way round: the event may have led to it",
    Standing.UNKNOWN: "unknown: missing reports might lead from here to the event",
}


def write_page(incident: Incident, trace_link: TraceLink | None = None) -> str:
    """Write the whole HTML file. With `trace_link`, ids of events that are part of a trace link to it."""
    title = f"What led to: {incident.event.name or incident.event.id}"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<h1>{escape(title)}</h1>",
            f'<p class="muted">Event <code>{escape(incident.event.id)}</code> of <code>{escape(incident.event.process)}'
            f"</code>, by its own clock at {escape(format_wall_time(incident.event.time, incident.unit))} · history "
            f"<code>{escape(incident.history)}</code></p>",
            *_write_summary(incident),
            *_write_diagram(incident),
            *_write_causes(incident, trace_link),
            *_write_possible(incident, trace_link),
            *_write_missing(incident),
            *_write_bystanders(incident, trace_link),
            *_write_orderings(incident),
            *_write_ledger(incident.ledger),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _list_events(incident: Incident) -> list[tuple[Event, str]]:
    """List all events with their roles, in the order of the page's tables."""
    parts = (
        (incident.past, PAST),
        ((incident.event,), FOCUS),
        (incident.possible, POSSIBLE),
        (incident.bystanders, BYSTANDER),
    )
    return [(event, role) for events, role in parts for event in events]


def _make_dots(incident: Incident) -> list[Dot]:
    """Make the dots of the diagram in history order; each links to its row in a table."""
    rows = [(event, role, f"event-{number}") for number, (event, role) in enumerate(_list_events(incident), 1)]
    return [_make_dot(*row, incident) for row in sorted(rows, key=lambda row: row[0].position)]


def _describe_relation(event: Event, role: str, incident: Incident) -> str:
    if role != BYSTANDER:
        return ROLE_TEXTS[role]
    return BYSTANDER_TEXTS[incident.standings.get(event.position, Standing.CONCURRENT)]


def _make_dot(event: Event, role: str, anchor: str, incident: Incident) -> Dot:
    lines = [
        f"{event.process} · {label(event)}",
        f"{event.id}, wall time {format_wall_time(event.time, incident.unit)}",
        _describe_relation(event, role, incident),
        *([f"line {line}"] if (line := incident.lines.get(event.position)) is not None else []),
        *(f"{name}: {_format_value(value)}" for name, value in event.attributes.items()),
    ]
    return Dot(
        anchor,
        event.process,
        event.seq,
        label(event),
        "\n".join(lines),
        role,
        event.time,
        position=event.position,
        causes=tuple(incident.causes.get(event.position, ())),
        loud=role != BYSTANDER and (event.error or is_loud(event.attributes)),
        line=line,
        follows=None if incident.follows is None else tuple(incident.follows.get(event.position, ())),
        assumed=frozenset(cause for cause, effect in incident.assumed if effect == event.position),
    )


def _write_summary(incident: Incident) -> list[str]:
    causes, after, others = len(incident.past), incident.count_after_by_wall_clock(), len(incident.bystanders)
    parts = [
        "<p>Only an event from which a chain of messages and of steps within processes leads to it can have caused it. "
        f"Shown: the last {causes:,} with a recorded chain.</p>"
    ]
    if incident.possible:
        parts.append(
            f"<p>{len(incident.possible):,} more may have led to it, but no report says so: they only share a process "
            "with a cause, or an answer is assumed.</p>"
        )
    if after:
        carry = "carries" if after == 1 else "carry"
        parts.append(
            f'<p><strong class="after">{after:,} of these {causes:,} causes {carry} a wall time later than the event '
            "itself.</strong> Sorted by time, the logs show them after it.</p>"
        )
    if others:
        are, they = ("other event is", "it is") if others == 1 else ("other events are", "they are")
        doubtful = sum(standing is Standing.UNKNOWN for standing in incident.standings.values())
        doubt = f" Of {doubtful:,} this cannot be known for sure, because reports are missing." if doubtful else ""
        parts.append(
            f"<p>{others:,} {are} shortly before it by wall time, and no chain leads from there to it: {they} drawn "
            f"hollow.{doubt}</p>"
        )
    return parts


def _write_diagram(incident: Incident) -> list[str]:
    dots = _make_dots(incident)
    messages = find_arrows(dots)
    backwards = sum(arrow.backwards_by is not None for arrow in messages)
    description = (
        f"Events: {len(dots)}, of processes: {len({dot.process for dot in dots})}, one row each, every cause above its "
        f"effects. Messages, as arrows: {len(messages)}, backwards by wall clock: {backwards}. The tables below "
        "have the same events."
    )
    return [
        '<h2 id="drawing">In causal order</h2>',
        '<div class="scroll" tabindex="0" role="region" aria-labelledby="drawing">',
        draw_diagram(dots, unit=incident.unit, title=f"Causes of {incident.event.id}", description=description),
        "</div>",
        _write_legend(),
    ]


def _write_legend() -> str:
    samples = (
        ('<circle class="dot" cx="17" cy="7" r="6"/>', "past", "before: recorded to have led to it"),
        ('<circle class="dot" cx="17" cy="7" r="6"/>', "possible", "possible"),
        ('<circle class="dot" cx="17" cy="7" r="5"/>', "focus", "the event asked about"),
        ('<circle class="dot" cx="17" cy="7" r="6"/>', "bystander", "not a cause, as far as is known"),
        ('<line class="message onwards" x1="1" y1="7" x2="33" y2="7"/>', "", "message"),
        (
            '<line class="message backwards" x1="1" y1="7" x2="33" y2="7"/>',
            "",
            "message that the wall clocks show as received before it was sent, and by how much",
        ),
        ('<line class="message assumed onwards" x1="1" y1="7" x2="33" y2="7"/>', "", "answer that is only assumed"),
        ('<line class="step" x1="1" y1="7" x2="33" y2="7"/>', "", "next step on a line of a process"),
        ('<line class="step omits" x1="1" y1="7" x2="33" y2="7"/>', "", "a later step; some between are not shown"),
    )
    items = "".join(
        f'<li><svg class="{style}" viewBox="0 0 34 14" aria-hidden="true">{shape}</svg>{text}</li>'
        for shape, style, text in samples
    )
    return (
        f'<ul class="legend">{items}<li>Numbers beside a row: wall time, relative to the event asked about.</li></ul>'
    )


def _write_causes(incident: Incident, trace_link: TraceLink | None) -> list[str]:
    rows = [(event, PAST) for event in incident.past] + [(incident.event, FOCUS)]
    caption = "In causal order. The wall clocks decide neither what is listed nor where."
    return ["<h2>The causes, oldest first</h2>", _write_events(rows, incident, 1, caption, trace_link)]


def _write_possible(incident: Incident, trace_link: TraceLink | None) -> list[str]:
    if not incident.possible:
        return []
    rows = [(event, POSSIBLE) for event in incident.possible]
    caption = "These share a process with a cause, or an answer is assumed."
    return ["<h2>Also possible</h2>", _write_events(rows, incident, len(incident.past) + 2, caption, trace_link)]


def _write_missing(incident: Incident) -> list[str]:
    items = [f"<li>{escape(hole.words)}</li>" for hole in incident.missing]
    return ["<h2>Known to be missing</h2>", f"<ul>{''.join(items)}</ul>"] if items else []


def _write_bystanders(incident: Incident, trace_link: TraceLink | None) -> list[str]:
    if not incident.bystanders:
        return []
    rows = [(event, BYSTANDER) for event in incident.bystanders]
    first = len(incident.past) + len(incident.possible) + 2
    return [
        "<h2>Shortly before by wall clock, and nothing leads from there</h2>",
        _write_events(rows, incident, first, "No chain of messages leads from these to the event.", trace_link),
    ]


def _write_events(
    rows: Sequence[tuple[Event, str]], incident: Incident, first: int, caption: str, trace_link: TraceLink | None
) -> str:
    """Write a table of events with their roles; `first` is the number of its first row on the page."""
    focus = incident.event.time
    corrected = any(event.correction for event, _ in rows)
    body = []
    for number, (event, role) in enumerate(rows, first):
        offset = event.time - focus if event.time is not None and focus is not None else None
        after = role == PAST and offset is not None and offset > 0
        attributes = ", ".join(f"{name}={_format_value(value)}" for name, value in event.attributes.items())
        mark = '<span class="after">after it by wall clock</span>' if after else ""
        correction = f'<td class="number">{_format_correction(event, incident.unit)}</td>' if corrected else ""
        body.append(
            f'<tr id="event-{number}" class="{role}"><td class="number">{number}</td><th scope="row">'
            f"{_write_id(event, trace_link)}</th><td>{escape(label(event))}</td>"
            f'<td class="time">{escape(format_wall_time(event.time, incident.unit))}</td>{correction}'
            f'<td class="number{" after" if after else ""}">'
            f"{'' if offset is None else escape(format_signed_duration(offset, incident.unit))}</td><td>{mark}</td>"
            f"<td>{_relation_word(event, role, incident)}</td><td>{escape(attributes)}</td></tr>"
        )
    columns = ["", "event", "what happened", "wall time", "relative", "", "relation", "attributes"]
    if corrected:
        columns.insert(4, "corrected by")
    return _write_table(caption, columns, body, numbers={columns.index("relative"), *([4] if corrected else [])})


def _write_id(event: Event, trace_link: TraceLink | None) -> str:
    """Write the event's id, as a link to its trace if there is one."""
    text = f"<code>{escape(event.id)}</code>"
    address = None if trace_link is None else trace_link.fill(event.line)
    return text if address is None else f'<a href="{escape(address)}" rel="noreferrer">{text}</a>'


def _relation_word(event: Event, role: str, incident: Incident) -> str:
    """Return one word for how an event is related to the one asked about."""
    return "" if role == FOCUS else _describe_relation(event, role, incident).partition(":")[0]


def _format_correction(event: Event, unit: str) -> str:
    return escape(format_signed_duration(event.correction, unit)) if event.correction else ""


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _write_orderings(incident: Incident) -> list[str]:
    if not incident.orderings:
        return []
    body = []
    for ordering in incident.orderings:
        share = f"{100 * ordering.messages_inverted / ordering.messages:.3g}%" if ordering.messages else ""
        delays = ordering.delays
        waits = [
            "" if delays is None else format_duration(delays[name], incident.unit) for name in ("p50", "p99", "max")
        ]
        counts = ("not known" if count is None else f"{count:,}" for count in (ordering.before_cause, ordering.pairs))
        cells = (f"{ordering.messages_inverted:,}", share, *counts, *map(escape, waits))
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        body.append(f'<tr><th scope="row">{escape(ordering.name)}</th>{numbers}</tr>')
    wrong = ("messages before their send", "share", "events before a cause", "pairs inverted")
    heads = ("order by", *wrong, "wait p50", "wait p99", "longest wait")
    caption = "How often each order shows an effect before its cause, and how long a report waits for its place."
    return ["<h2>What order costs</h2>", _write_table(caption, heads, body, numbers=set(range(1, 8)))]


def _write_ledger(ledger: Mapping[str, Any]) -> list[str]:
    reasons: Mapping[str, int] = ledger.get("reasons") or {}
    counts = [(name, ledger[name]) for name in ("reports", "delivered", "duplicate", "quarantined") if name in ledger]
    counts += [(f"quarantined: {name}", count) for name, count in sorted(reasons.items())]
    if missing := ledger.get("missing_causes"):
        counts.append(("delivered, with a cause that nobody reported", missing))
    if not counts:
        return []
    body = [
        f'<tr><th scope="row">{escape(str(name))}</th><td class="number">{count:,}</td></tr>' for name, count in counts
    ]
    caption = "Every report that came in is counted once: delivered, a duplicate, or quarantined with a reason."
    return ["<h2>What became of the reports</h2>", _write_table(caption, ("", "reports"), body, numbers={1})]


def _write_table(caption: str, heads: Sequence[str], rows: Sequence[str], *, numbers: set[int]) -> str:
    """Write a table; `numbers` are the indices of columns with numbers."""
    cells = "".join(
        f'<th scope="col" class="number">{name}</th>' if index in numbers else f'<th scope="col">{name}</th>'
        for index, name in enumerate(heads)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table><caption>{escape(caption)}'
        f"</caption>\n<thead><tr>{cells}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>"
    )
