"""Answers in words: led to, could have led to, cannot have led to, not known; and how much of a history is provable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ledto.durations import show_duration
from ledto.events.keys import ANSWER, SPAN

if TYPE_CHECKING:
    from ledto.questions.concurrent import Concurrent
    from ledto.questions.event import Event
    from ledto.questions.explain import Related
    from ledto.questions.missing import Missing
    from ledto.questions.path import PathStep
    from ledto.questions.provable import Provable
    from ledto.questions.why import Why

UNCONNECTED = (
    "WARNING: no message connects these processes: nothing is known of what led from one to another. "
    "Give sends and receives, spans or vector clocks: docs/sources.md says how"
)
SPANS_UNCONNECTED = (
    "WARNING: no span has its parent, or a link to a span, in another process: nothing is known of what led from one "
    "process to another. Do callers pass their trace context on, and are the spans of all services here?"
)
MOST_NAMED = 3
"""The most missing reports that a sentence names; it counts the others."""
SHOWN_DIGITS = 6
"""The last digits of a span's or trace's id, which are shown where it is cut. Some ids begin with zeros."""
LONGEST_LINE = 24
"""The most characters of a line's name."""
HEXADECIMAL = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}")


def format_count(count: int, name: str) -> str:
    """Format a number with a name, which is given in the singular: 1 event, 2 processes."""
    plural = f"{name}es" if name.endswith("s") else f"{name}s"
    return f"{count:,} {name if count == 1 else plural}"


def name_event(event: Event) -> str:
    """Return the event's id and name."""
    return f"{event.id} {event.name}" if event.name else event.id


def describe_relation(answer: Related, unit: str, *, answered: bool = False) -> str:
    """Say how two events are related; the first word is the relation."""
    first, second = answer.first, answer.second
    word = answer.relation.value
    if word == "equal":
        return f"equal: both are {name_event(first)}"
    if word == "concurrent":
        doubt = _doubt_numbers(answer.numbered)
        return f"concurrent: neither of {name_event(first)} and {name_event(second)} can have led to the other{doubt}"
    earlier, later = (first, second) if first.position < second.position else (second, first)
    if word in ("before", "after"):
        how = "recorded, with assumed answers" if answered else "recorded"
        return f"{word}: {name_event(earlier)} led to {name_event(later)} ({how})"
    if word == "possible":
        through = "" if answer.through is None else f": {_describe_shared(answer.through, earlier, later, unit)}"
        return (
            f"possible: {name_event(earlier)} could have led to {name_event(later)}{through}; "
            "nothing recorded leads from one to the other"
        )
    return (
        f"unknown: nothing leads from one of {name_event(first)} and {name_event(second)} to the other, "
        f"but reports are missing that might{_list_missing(answer.missing)}"
    )


def _describe_shared(step: PathStep, earlier: Event, later: Event, unit: str) -> str:
    """Say through what a possible cause would have acted."""
    cause = "it" if step.cause == earlier else name_event(step.cause)
    effect = "the latter" if step.effect == later else name_event(step.effect)
    if step.kind == "tie":
        return (
            f"{cause} and {effect}, or one of them, happened at the same time by a clock as events between which a message "
            "went, and it is not known in which order"
        )
    if step.kind == "answer":
        waited = cause if _is_local(step) else f"the answer of {cause}"
        return f"{effect} is assumed to have waited for {waited}"
    near = "" if step.apart is None else f", {show_duration(step.apart, unit)} apart by its clock"
    both = "both" if (cause, effect) == ("it", "the latter") else f"{cause} and {effect} both"
    return f"{both} touched {step.effect.process}{near}"


def _list_missing(missing: Sequence[Missing]) -> str:
    if not missing:
        return ""
    more = f"; and {len(missing) - MOST_NAMED:,} more" if len(missing) > MOST_NAMED else ""
    return ": " + "; ".join(gap.words for gap in missing[:MOST_NAMED]) + more


def describe_completeness(answer: Why) -> str:
    """Say whether reports are missing of what could have led to an event."""
    if answer.complete:
        return f"complete: no report is missing of what could have led to it{_doubt_numbers(answer.numbered)}"
    return "not complete: reports are missing of what could have led to it"


def describe_concurrent(answer: Concurrent) -> str:
    """Say how many events are concurrent with one, and for how many that is not known."""
    are = "event is" if answer.total == 1 else "events are"
    unknown = f"; of {answer.unknown:,} more it is not known: reports are missing" if answer.unknown else ""
    return f"{answer.total:,} {are} concurrent with {answer.event.id}{_doubt_numbers(answer.numbered)}{unknown}"


def _doubt_numbers(numbered: bool) -> str:
    return "" if numbered else ", if no report was lost: not all events have numbers"


def describe_message(event: Event) -> str:
    """Return the key of an event's message, shortened. For a span, return only who started it: its line names it already."""
    key = event.message or ""
    if not key.startswith((SPAN, ANSWER)):
        return key
    if key.startswith(ANSWER):
        return "" if event.kind == "local" else "answer"
    if event.receives is None or key == f"{SPAN}{event.line}":
        return ""
    is_call = event.attributes.get("span.kind") in ("server", "consumer")
    return f"{'call from' if is_call else 'from'} {_shorten_span(key.removeprefix(SPAN))}"


def shorten_key(key: str | None) -> str:
    """Shorten a message's key."""
    if key is None or not key.startswith((SPAN, ANSWER)):
        return key or ""
    return f"call from {_shorten_span(key.removeprefix(SPAN))}" if key.startswith(SPAN) else "answer"


def _shorten_span(line: str) -> str:
    return shorten_id(line.rpartition("/")[2])


def shorten_line(line: str | None) -> str:
    """Shorten a line's name, and the ids of spans and traces in it."""
    if line is None:
        return ""
    shown = "/".join(map(shorten_id, line.split("/")))
    return shown if len(shown) <= LONGEST_LINE else f"{shown[: LONGEST_LINE - 1]}…"


def shorten_id(text: str) -> str:
    """Cut an id of a span or trace to its last digits; return any other text unchanged."""
    return f"…{text[-SHOWN_DIGITS:]}" if HEXADECIMAL.fullmatch(text) else text


def describe_step(step: PathStep, unit: str) -> str:
    """Say what leads from cause to effect, and whether that is assumed."""
    near = "" if step.apart is None else f", {show_duration(step.apart, unit)} apart"
    if step.kind == "process":
        return f"process {step.effect.process}{near}"
    if step.kind == "answer":
        return f"{'wait' if _is_local(step) else 'answer'}, assumed{near}"
    if step.kind == "tie":
        return "events at the same time, in either order"
    if step.kind == "message":
        return f"message {step.message}" if shorten_key(step.message) == step.message else "call"
    if step.kind == "start":
        return f"line {shorten_line(step.effect.line)} was started"
    if step.kind == "join":
        return f"line {shorten_line(step.cause.line)} was waited for"
    line = step.effect.line
    return f"process {step.effect.process}" if line is None else f"line {shorten_line(line)}"


def _is_local(step: PathStep) -> bool:
    return step.cause.process == step.effect.process


def describe_through(step: PathStep, unit: str) -> str:
    """Say how long before which event a possible cause came, and through which process or answer it would have acted."""
    near = "before" if step.apart is None else f"{show_duration(step.apart, unit)} before"
    effect = step.effect.name or step.effect.id
    if step.kind == "answer" and _is_local(step):
        return f"{near} {effect} (child span, assumed to have been waited for)"
    if step.kind == "answer":
        return f"{near} {effect} (answer of {step.cause.process}, assumed)"
    if step.kind == "tie":
        return f"{near} {effect} (events at the same time, in either order)"
    return f"{near} {effect} (process {step.effect.process})"


def describe_provable(counts: Provable) -> list[str]:
    """Say for how many events it is provable what cannot have led to them, why not for all, and on what condition."""
    size = f"{format_count(counts.events, 'event')} of {format_count(counts.processes, 'process')}"
    warning = [] if counts.connected else [SPANS_UNCONNECTED if counts.spans else UNCONNECTED]
    if warning and counts.silent_processes == counts.processes:
        return [*warning, size]
    share = _format_share(counts.provable, counts.events)
    sentence = f"{size}: for {share} of them it is provable what cannot have led to them"
    reasons = []
    if after_holes := counts.events - counts.provable - counts.silent_events:
        first = "" if counts.first_missing is None else f" (first before {counts.first_missing})"
        reasons.append(f"for {after_holes:,} a report is missing in their past{first}")
    if counts.silent_events:
        names = ", ".join(counts.silent)
        more = ", ..." if counts.silent_processes > len(counts.silent) else ""
        which = "a process that reports" if counts.silent_processes == 1 else "processes that report"
        are = "is" if counts.silent_events == 1 else "are"
        reasons.append(f"{counts.silent_events:,} {are} of {which} no message ({names}{more})")
    lines = [*warning, "; ".join([sentence, *reasons])]
    if not counts.numbered and counts.processes:
        lines.append("  if no report was lost: not all events have numbers, so lost reports cannot be noticed")
    return lines


def _format_share(part: int, whole: int) -> str:
    """Format a share in percent, never rounded to all or none."""
    if part == whole:
        return "all"
    if not part:
        return "none"
    percent = 100 * part / whole
    return f"{percent:.0f}%" if 1 <= percent < 99.5 else "less than 1%" if percent < 1 else "more than 99%"


def describe_ledger(ledger: dict[str, Any]) -> list[str]:
    """Say how many reports were delivered, duplicate or quarantined, and for which reasons."""
    counts = {name: ledger.get(name, 0) for name in ("reports", "delivered", "duplicate", "quarantined")}
    _, *outcomes = (f"{count:,} {name}" for name, count in counts.items())
    lines = [f"{format_count(counts['reports'], 'report')} in = {' + '.join(outcomes)}"]
    lines += [f"  {count:,} {code}" for code, count in ledger.get("reasons", {}).items()]
    if missing := ledger.get("missing_causes"):
        name = "event names" if missing == 1 else "events name"
        lines.append(f"  {missing:,} delivered {name} a cause that nobody reported")
    return lines


def describe_channels(channels: dict[str, int]) -> list[str]:
    """Say how sends and receives in channels were matched; nothing if there are none."""
    if not any(channels.values()):
        return []
    counts = {
        name.replace("_", " "): channels.get(name, 0) for name in ("matched", "unmatched_receives", "unmatched_sends")
    }
    shown = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    doubts = {
        name.partition("_")[2]: count for name, count in channels.items() if name.startswith("ambiguous_") and count
    }
    why = f" ({', '.join(f'{count:,} {name}' for name, count in doubts.items())})" if doubts else ""
    left_out = channels.get("left_out", 0)
    unknown = f", of which {left_out:,} follow no send, for it would be a guess" if left_out else ""
    return [f"channels: {shown}; {channels.get('ambiguous', 0):,} ambiguous{why}{unknown}"]
