"""Answers in words: led to, could have led to, cannot have led to, not known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledto.durations import show_duration

if TYPE_CHECKING:
    from ledto.questions.concurrent import Concurrent
    from ledto.questions.event import Event
    from ledto.questions.explain import Related
    from ledto.questions.missing import Missing
    from ledto.questions.path import PathStep
    from ledto.questions.why import Why


from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ledto.questions.provable import Provable

UNCONNECTED = (
    "WARNING: no message connects these processes: nothing is known of what led from one to another. "
    "Give sends and receives, trace ids or vector clocks: docs/sources.md says how"
)
SPANS_UNCONNECTED = (
    "WARNING: no span has its parent, or a link to a span, in another process: nothing is known of what led from one "
    "process to another. Do callers pass their trace context on, and are the spans of all services here?"
)


def provable_lines(found: Provable) -> list[str]:
    """Say for how many events it is provable what cannot have led to them, why not for all, and what that rests on."""
    size = f"{counted(found.events, 'event')} of {counted(found.processes, 'process')}"
    warning = [] if found.connected else [SPANS_UNCONNECTED if found.spans else UNCONNECTED]
    if warning and found.silent_processes == found.processes:
        return [*warning, size]
    share = _share(found.provable, found.events)
    said = f"{size}: for {share} of them it is provable what cannot have led to them"
    reasons = []
    if after_holes := found.events - found.provable - found.silent_events:
        first = "" if found.first_missing is None else f" (first before {found.first_missing})"
        reasons.append(f"for {after_holes:,} a report is missing in their past{first}")
    if found.silent_events:
        names = ", ".join(found.silent)
        more = ", ..." if found.silent_processes > len(found.silent) else ""
        which = "a process that tells" if found.silent_processes == 1 else "processes that tell"
        are = "is" if found.silent_events == 1 else "are"
        reasons.append(f"{found.silent_events:,} {are} of {which} of no message ({names}{more})")
    lines = [*warning, "; ".join([said, *reasons])]
    if not found.numbered and found.processes:
        lines.append("  if no report was lost: not all events have numbers, and nobody can miss one that has none")
    return lines


def _share(part: int, whole: int) -> str:
    """In percent, and never rounded to all or to none."""
    if part == whole:
        return "all"
    if not part:
        return "none"
    percent = 100 * part / whole
    return f"{percent:.0f}%" if 1 <= percent < 99.5 else "less than 1%" if percent < 1 else "more than 99%"


MOST_TOLD = 3
"""Missing reports that a sentence names; more are counted."""
TAIL = 6
"""Digits of a span's or a trace's id that are shown where it is cut: the last ones, for some ids begin with zeros."""
LONGEST_LINE = 24
HEXADECIMAL = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}")


def counted(count: int, name: str) -> str:
    """The number and the name, which is given for one: 1 event, 2 processes."""
    plural = f"{name}es" if name.endswith("s") else f"{name}s"
    return f"{count:,} {name if count == 1 else plural}"


def brief(event: Event) -> str:
    """The event's id and name."""
    return f"{event.id} {event.name}" if event.name else event.id


def relation_sentence(answer: Related, unit: str, *, answered: bool = False) -> str:
    """Say how two events stand to each other; the first word is that of the relation."""
    first, second = answer.first, answer.second
    word = answer.relation.value
    if word == "equal":
        return f"equal: both are {brief(first)}"
    if word == "concurrent":
        known = _unless_lost(answer.numbered)
        return f"concurrent: neither of {brief(first)} and {brief(second)} can have led to the other{known}"
    earlier, later = (first, second) if first.position < second.position else (second, first)
    if word in ("before", "after"):
        how = "recorded, with assumed answers" if answered else "recorded"
        return f"{word}: {brief(earlier)} led to {brief(later)} ({how})"
    if word == "possible":
        through = "" if answer.through is None else f": {_through_sentence(answer.through, earlier, later, unit)}"
        return (
            f"possible: {brief(earlier)} could have led to {brief(later)}{through}; "
            "nothing recorded leads from one to the other"
        )
    return (
        f"unknown: nothing leads from one of {brief(first)} and {brief(second)} to the other, "
        f"but reports are missing that might{_told(answer.missing)}"
    )


def _through_sentence(step: PathStep, earlier: Event, later: Event, unit: str) -> str:
    """Say through what a possible cause would have acted."""
    cause = "it" if step.cause == earlier else brief(step.cause)
    effect = "the latter" if step.effect == later else brief(step.effect)
    if step.kind == "tie":
        return (
            f"{cause} and {effect}, or one of them, happened at the same time by a clock as events between which a message "
            "went, and it is not known in which order"
        )
    if step.kind == "answer":
        waited = cause if _is_local(step) else f"the answer of {cause}"
        return f"{effect} is taken to have waited for {waited}"
    near = "" if step.apart is None else f", {show_duration(step.apart, unit)} apart by its clock"
    both = "both" if (cause, effect) == ("it", "the latter") else f"{cause} and {effect} both"
    return f"{both} touched {step.effect.process}{near}"


def _told(missing: Sequence[Missing]) -> str:
    if not missing:
        return ""
    more = f"; and {len(missing) - MOST_TOLD:,} more" if len(missing) > MOST_TOLD else ""
    return ": " + "; ".join(each.words for each in missing[:MOST_TOLD]) + more


def completeness(answer: Why) -> str:
    """Say whether all that could have led to an event is there."""
    if answer.complete:
        return f"complete: no report is missing of what could have led to it{_unless_lost(answer.numbered)}"
    return "not complete: reports are missing of what could have led to it"


def concurrent_sentence(answer: Concurrent) -> str:
    """Say with how many events one is concurrent, and of how many that is not known."""
    are = "event is" if answer.total == 1 else "events are"
    unknown = f"; of {answer.unknown:,} more it is not known: reports are missing" if answer.unknown else ""
    return f"{answer.total:,} {are} concurrent with {answer.event.id}{_unless_lost(answer.numbered)}{unknown}"


def _unless_lost(numbered: bool) -> str:
    return "" if numbered else ", if no report was lost: not all events have numbers"


def event_message(event: Event) -> str:
    """The message of an event, short; of spans only who started it, for its own is on its line already."""
    from ledto.events.schema import ANSWER, SPAN  # Imports pyarrow, which help does not need.

    key = event.message or ""
    if not key.startswith((SPAN, ANSWER)):
        return key
    if key.startswith(ANSWER):
        return "" if event.kind == "local" else "answer"
    if event.receives is None or key == f"{SPAN}{event.line}":
        return ""
    is_call = event.attributes.get("span.kind") in ("server", "consumer")
    return f"{'call from' if is_call else 'from'} {_span_of(key.removeprefix(SPAN))}"


def message_words(key: str | None) -> str:
    """A message's key, short."""
    from ledto.events.schema import ANSWER, SPAN

    if key is None or not key.startswith((SPAN, ANSWER)):
        return key or ""
    return f"call from {_span_of(key.removeprefix(SPAN))}" if key.startswith(SPAN) else "answer"


def _span_of(line: str) -> str:
    return shortened_id(line.rpartition("/")[2])


def shortened_line(line: str | None) -> str:
    """The name of a line, with the ids of spans and traces cut."""
    if line is None:
        return ""
    shown = "/".join(map(shortened_id, line.split("/")))
    return shown if len(shown) <= LONGEST_LINE else f"{shown[: LONGEST_LINE - 1]}…"


def shortened_id(text: str) -> str:
    """The end of an id of a span or a trace; any other text as it is."""
    return f"…{text[-TAIL:]}" if HEXADECIMAL.fullmatch(text) else text


def known_by(step: PathStep, unit: str) -> tuple[str, str]:
    """By what a step leads from cause to effect; and whether that is recorded, assumed, or only possible."""
    near = "" if step.apart is None else f", {show_duration(step.apart, unit)} apart"
    if step.kind == "process":
        return f"process {step.effect.process}{near}", step.known
    if step.kind == "answer":
        return f"{'wait' if _is_local(step) else 'answer'}{near}", step.known
    if step.kind == "tie":
        return "events at the same time, in either order", step.known
    if step.kind == "message":
        return (f"message {step.message}" if message_words(step.message) == step.message else "call"), step.known
    if step.kind == "start":
        return f"line {shortened_line(step.effect.line)} was started", step.known
    if step.kind == "join":
        return f"line {shortened_line(step.cause.line)} was waited for", step.known
    line = step.effect.line
    return (f"process {step.effect.process}" if line is None else f"line {shortened_line(line)}"), step.known


def _is_local(step: PathStep) -> bool:
    return step.cause.process == step.effect.process


def through_words(step: PathStep, unit: str) -> str:
    """Through which process or answer a possible cause would act, and how close that is."""
    near = "before" if step.apart is None else f"{show_duration(step.apart, unit)} before"
    effect = step.effect.name or step.effect.id
    if step.kind == "answer" and _is_local(step):
        return f"child span, assumed to have been waited for: {near} {effect}"
    if step.kind == "answer":
        return f"answer of {step.cause.process}, assumed: {near} {effect}"
    if step.kind == "tie":
        return f"events at the same time, in either order: {near} {effect}"
    return f"process {step.effect.process}: {near} {effect}"
