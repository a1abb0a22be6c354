"""What questions answer, described for OpenAPI. The documents themselves are those of `whence ... --json`.

A key that says nothing is left out, except where it is listed as always there.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    """A part of an answer; no key but those that are described."""

    model_config = ConfigDict(extra="forbid")


class AnsweredDocument(Document):
    """An answer with events."""

    truncated: int | None = Field(
        None, description="How many of its events have texts that were cut, because the answer would be too large."
    )


NUMBERED: Any = Field(
    description="Whether all events have numbers: else nobody notices a lost report, and the answer holds if none was lost."
)


class EventDocument(Document):
    """An event. ``id``, ``process``, ``seq``, ``name`` and ``time`` are always there, the others if they say something."""

    id: str = Field(description="The source's own, or PROCESS:SEQ.", examples=["shop:42"])
    process: str = Field(examples=["shop"])
    seq: int = Field(description="Its number within its process.", examples=[42])
    name: str | None = Field(examples=["order placed"])
    time: int | None = Field(
        description="The wall time it came with, in the history's unit.", examples=[1700000000120000000]
    )
    corrected_time: int | None = Field(None, description="The wall time, moved as little as causality demands.")
    computation: str | None = Field(None, description="The computation it is part of.")
    clock_name: str | None = Field(
        None, description="The clock its time was read from, if it is not its process's own."
    )
    line: str | None = Field(
        None, description="What its process was doing: a request, a task, a span.", examples=["TRACE/SPAN"]
    )
    causal_time: int | None = Field(None, description="The largest wall time in its causal past, its own included.")
    kind: str | None = Field(None, description="local, send or receive.", examples=["send"])
    message: str | None = Field(None, description="The key of the message it received, or else of the one it sent.")
    position: int | None = Field(None, description="Its place in history order, from 0.")
    missing: list[str] = Field([], description="Causes that it names and nobody reported.")
    error: bool | None = Field(None, description="True for an event that tells of a failure.")
    attributes: dict[str, Any] = Field({}, description="What else was reported with it.", examples=[{"status": 500}])
    file: str | None = Field(None, description="Where the report came from.")
    place: int | None = Field(None, description="The line or row there.")


class MissingDocument(Document):
    """Something that is known to have happened and of which the history has no report."""

    kind: str = Field(
        description="numbers that are left out; a report that was set aside or came late; a cause, the caller of a server "
        "or the callee of a client, which nobody reports; when an answer was sent, a call made, or an event happened; or "
        "all messages of a process.",
        examples=["numbers"],
    )
    process: str | None = Field(None, description="The process whose reports are missing.")
    after_seq: int | None = Field(None, description="They lie after this number of it ...")
    before_seq: int | None = Field(None, description="... and before this one.")
    events: int = Field(description="How many, at least.")
    message: str | None = Field(None, description="A message that was received and whose sending nobody reported.")
    received_by: str | None = Field(None, description="The event that received it.")
    no_messages: bool = Field(False, description="Whether the process tells of no message at all.")
    set_aside: str | None = Field(None, description="Why a report of the process was set aside, or `late`.")


KINDS_OF_STEPS = (
    "line, start or join: along a line, to one that was started, from one that was waited for; message. "
    "Not recorded: process, tie (of events at one time), answer."
)


class EdgeDocument(Document):
    """One step between two listed events."""

    cause: int = Field(description="The position of the cause.")
    effect: int = Field(description="The position of the effect.")
    kind: str = Field(description=KINDS_OF_STEPS, examples=["message"])


class StepDocument(Document):
    """One step from a cause to an effect."""

    kind: str = Field(description=KINDS_OF_STEPS, examples=["message"])
    known: str = Field(description="recorded, assumed or possible.", examples=["recorded"])
    cause: EventDocument
    effect: EventDocument
    message: str | None = Field(None, description="The key of the message, or of the answer.")
    apart: int | None = Field(None, description="The time between the two, where the step is not recorded.")


class PossibleDocument(Document):
    """An event that may have led to another, though nothing recorded says so."""

    event: EventDocument
    through: StepDocument = Field(description="The step towards the other that is not recorded.")


class WhyDocument(AnsweredDocument):
    """What led to an event."""

    event: EventDocument
    events: list[EventDocument] = Field(
        description="The last k events that are recorded to have led to it, each after its own causes."
    )
    more: bool = Field(description="Whether there are further ones before those.")
    missing: list[MissingDocument] = Field(
        description="What is known to be missing of what may have led to it: between those events, then further back."
    )
    complete: bool = Field(description="Whether nothing is missing, as far as reports tell.")
    numbered: bool = NUMBERED
    possible: list[PossibleDocument] = Field(
        description="Events that may have led to it besides, though nothing recorded says so: the most telling first."
    )
    more_possible: bool = Field(description="Whether there may be further ones of those.")
    edges: list[EdgeDocument] = Field(
        description="How the events, and the event asked about, lead to each other at one step; none with a filter."
    )


class AffectedDocument(Document):
    """A process that an event had effects in."""

    process: str
    events: int = Field(description="How many of its events it led to, or could have.")


class ImpactDocument(AnsweredDocument):
    """What came of an event."""

    event: EventDocument
    events: list[EventDocument] = Field(description="The first k recorded effects, each after its own causes.")
    more: bool
    total: int = Field(description="How many effects there are in all, possible ones included.")
    processes: list[AffectedDocument] = Field(description="Where, the process with most first.")
    possible: list[EventDocument] = Field(description="The first events that it may have led to besides.")
    more_possible: bool


class RelationDocument(AnsweredDocument):
    """How one event stands to another."""

    first: EventDocument
    second: EventDocument
    relation: str = Field(description="before, after, possible, concurrent, unknown or equal.", examples=["before"])
    numbered: bool = NUMBERED
    direction: str | None = Field(None, description="Where it is only possible: which way, before or after.")
    through: StepDocument | None = Field(
        None, description="Where it is only possible: the first step that is not recorded."
    )
    missing: list[MissingDocument] | None = Field(None, description="Where it is unknown: what is missing.")


class ExplanationDocument(RelationDocument):
    """How one event led to another."""

    steps: list[StepDocument] = Field(description="From the cause to the effect; none where nothing leads there.")


class ConcurrentDocument(AnsweredDocument):
    """What can neither have led to an event nor have come of it."""

    event: EventDocument
    events: list[EventDocument] = Field(description="The k nearest in history order.")
    more: bool
    total: int = Field(description="How many there are.")
    unknown: int = Field(description="Events of which it cannot be known, because reports are missing.")
    numbered: bool = NUMBERED


class MessageDocument(Document):
    """A message that was sent inside a cut and received outside of it."""

    key: str | None
    from_: str = Field(alias="from", description="The process that sent it.")
    to: str = Field(description="The process that received it.")
    sent: EventDocument
    received: EventDocument
    assumed: bool = Field(False, description="Whether it is only assumed that it was received: an answer.")


class CutDocument(AnsweredDocument):
    """A consistent state: with each event, everything that may have led to it."""

    event: EventDocument | None = Field(None, description="The event whose causal past this is.")
    time: int | None = Field(None, description="The time up to which events are in it by their causal times.")
    total: int = Field(description="How many events are in it.")
    events: list[EventDocument] = Field(description="The last event of each process that has one in it.")
    in_flight: list[MessageDocument] = Field(description="The first k messages sent inside and received outside.")
    in_flight_total: int


class ProcessDocument(Document):
    """A process of the history."""

    code: int
    computation: str
    process: str
    clock_name: str | None
    events: int
    first_time: int | None
    last_time: int | None
    dense_seq: bool = Field(description="Whether no number is missing between its first event and its last.")
    messages: int = Field(description="How many of its events send or receive something.")
    first_hole: int | None = Field(description="The number of its first event before which a report is missing.")
    first_tainted: int | None = Field(
        description="The number of its first event in whose past a report is missing: from there on nothing is provable."
    )
    first_gone: int | None = Field(
        description="The number of its first event that may come after a report which was set aside or came late."
    )
    gone_why: str | None = Field(description="Why that report was set aside, or that it came late.")


class ProvableDocument(Document):
    """For how many events it is provable what cannot have led to them."""

    events: int
    processes: int
    provable: int = Field(description="Events in whose past no report is known to be missing.")
    silent_processes: int = Field(description="Processes that tell of no message, beside others.")
    silent_events: int = Field(description="Their events, none of which is provable.")
    silent: list[str] = Field(description="Some of their names.")
    numbered: bool = Field(description="Whether all events have numbers: else nobody notices that a report was lost.")
    first_missing: str | None = Field(description="An event before which a report is missing, one of the first.")
    connected: bool = Field(description="False if nothing leads from one process of several to another.")
    spans: bool = Field(description="Where nothing does: whether there are spans, whose parents would connect them.")


class CheckDocument(Document):
    """What was found when the history was made."""

    events: int
    ledger: dict[str, Any] = Field(description="Reports, and what became of them.")
    wall_clock: dict[str, Any] = Field(description="How the order by wall time contradicts causal order.")
    policies: dict[str, Any] = Field(description="The same, and the delays, for each policy of delivery.")
    channels: dict[str, int] = Field(description="How sends and receives were matched that only share a channel.")
    provable: ProvableDocument


class AsideDocument(Document):
    """A report that was set aside."""

    outcome: str = Field(description="quarantined or duplicate.")
    reason: str | None = Field(description="A code and a detail.", examples=["not-json: line 3 is no object"])
    computation: str | None
    process: str | None
    file: str | None
    place: int | None
    text: str | None


class ClockDocument(BaseModel):
    """A clock: how far it is ahead of the reference, in the history's unit, and what that rests on."""

    name: str
    verdict: str
    offset: int | None = Field(description="The middle of the bounds.")
    low: int | None = Field(description="At least so far ahead.")
    high: int | None = Field(description="At most so far ahead.")
    reference: str | None
    events: int
    broken: bool
    confidence: str


class ClocksDocument(Document):
    """How wrong the clocks are."""

    clocks: list[ClockDocument]
    broken: list[str] = Field(description="Clocks that are wrong where the others agree.")
    eps: dict[str, Any] = Field(description="By how much two clocks differ, at_least and at_most.")
    lag: int | None
    eps_used: int | None
    groups: int
    same: list[dict[str, Any]] = Field(
        description="Clocks that cannot be told apart: names, and how far apart at most."
    )
    message_delays: dict[str, Any]
    report_delays: dict[str, Any]


class OrderedDocument(EventDocument):
    """A line of the order: an event and, under a policy, its delivery."""

    at: int | None = Field(None, description="When it is delivered.")
    waited: int | None = Field(None, description="How long it waited.")
    late: bool | None = Field(None, description="Whether it came after its time.")
