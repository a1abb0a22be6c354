"""Describe the answers to questions for OpenAPI. The documents themselves are those of `ledto ... --json`.

A key with a default here is left out of a document where it would say nothing.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    """A JSON object in an answer. It has no other keys than those described."""

    model_config = ConfigDict(extra="forbid")


class AnsweredDocument(Document):
    """An answer that shows events."""

    truncated: int | None = Field(
        None, description="How many of its events have texts that were cut, because the answer would be too large."
    )


NUMBERED: Any = Field(
    description="Whether all events have numbers. If not, lost reports go unnoticed: the answer holds if none was lost."
)


class EventDocument(Document):
    """An event. ``id``, ``process``, ``seq``, ``name`` and ``time`` are always present."""

    id: str = Field(description="The id that its source gave it, or PROCESS:SEQ.", examples=["shop:42"])
    process: str = Field(examples=["shop"])
    seq: int = Field(description="Its number within its process.", examples=[42])
    name: str | None = Field(examples=["order placed"])
    time: int | None = Field(
        description="The wall time that was reported, in the history's unit.", examples=[1700000000120000000]
    )
    corrected_time: int | None = Field(None, description="The wall time, moved as little as causality demands.")
    computation: str | None = Field(None, description="The computation it is part of.")
    clock_name: str | None = Field(
        None, description="The clock that its time was read from, if that is not the clock of its process."
    )
    line: str | None = Field(
        None, description="The line it is part of: a request, a task, a span.", examples=["TRACE/SPAN"]
    )
    causal_time: int | None = Field(None, description="The largest wall time in its causal past, its own included.")
    kind: str | None = Field(None, description="local, send or receive.", examples=["send"])
    message: str | None = Field(None, description="The key of the message that it received, or else sent.")
    position: int | None = Field(None, description="Its number in history order, from 0.")
    missing: list[str] = Field([], description="Causes that it names and that nobody reported.")
    error: bool | None = Field(None, description="True for an event that reports a failure.")
    attributes: dict[str, Any] = Field({}, description="What else was reported with it.", examples=[{"status": 500}])
    file: str | None = Field(None, description="Where the report came from.")
    place: int | None = Field(None, description="The line or row of that file.")


class MissingDocument(Document):
    """A hole: reports that are known to be missing."""

    kind: str = Field(
        description="What is missing: numbers of a process; a report that was quarantined or came late; a cause, the caller "
        "of a server or the callee of a client; the time when an answer was sent, a call made, or an event happened; or all "
        "messages of a process.",
        examples=["numbers"],
    )
    process: str | None = Field(None, description="The process whose reports are missing.")
    after_seq: int | None = Field(None, description="The number of its last event before them.")
    before_seq: int | None = Field(None, description="The number of its first event after them.")
    events: int = Field(description="How many events are missing, at least.")
    message: str | None = Field(None, description="A message that was received, and whose sending nobody reported.")
    received_by: str | None = Field(None, description="The event that received the message.")
    no_messages: bool = Field(False, description="Whether the process reports no messages at all.")
    reason: str | None = Field(None, description="Why a report of the process is not used: a code, or `late`.")


KINDS_OF_STEPS = (
    "Recorded: line (along a line), start (to a line that was started), join (from a line that was waited for), message. "
    "Not recorded: process, tie (events at the same time), answer."
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
    apart: int | None = Field(None, description="The time between the two, if the step is not recorded.")


class PossibleDocument(Document):
    """A possible cause: an event that could have led to another, with a step that is not recorded."""

    event: EventDocument
    through: StepDocument = Field(description="The step towards the other event that is not recorded.")


class WhyDocument(AnsweredDocument):
    """What led to an event."""

    event: EventDocument
    causes: list[EventDocument] = Field(
        description="The last k events that are recorded to have led to it, each after its own causes."
    )
    more: bool = Field(description="Whether there are more before those.")
    missing: list[MissingDocument] = Field(
        description="Reports that are missing among its causes: first between those events, then further back."
    )
    complete: bool = Field(description="Whether no report is known to be missing.")
    numbered: bool = NUMBERED
    possible: list[PossibleDocument] = Field(
        description="Possible causes besides: could have led to it, but no report says so. The most useful first."
    )
    more_possible: bool = Field(description="Whether there may be more possible causes.")
    edges: list[EdgeDocument] = Field(
        description="The steps between the listed events and to the event asked about; empty with a filter."
    )


class FoundDocument(AnsweredDocument):
    """Events that were searched for."""

    events: list[EventDocument] = Field(description="Those found, the newest last.")
    more: bool = Field(description="Whether there are more, before these; with `first`, after these.")
    interrupted: bool = Field(False, description="Whether the search was ended early; never over HTTP.")


class AffectedDocument(Document):
    """A process that has effects of an event."""

    process: str
    events: int = Field(description="How many of its events are effects, possible ones included.")


class ImpactDocument(AnsweredDocument):
    """The effects of an event."""

    event: EventDocument
    effects: list[EventDocument] = Field(description="The first k recorded effects, each after its own causes.")
    more: bool
    total: int = Field(description="How many effects there are in all, possible ones included.")
    processes: list[AffectedDocument] = Field(description="The processes with effects, the one with most first.")
    possible: list[EventDocument] = Field(description="The first possible effects besides.")
    more_possible: bool


class RelationDocument(AnsweredDocument):
    """The causal relation of two events."""

    first: EventDocument
    second: EventDocument
    relation: str = Field(description="before, after, possible, concurrent, unknown or equal.", examples=["before"])
    numbered: bool = NUMBERED
    direction: str | None = Field(None, description="If it is possible: before or after.")
    through: StepDocument | None = Field(None, description="If it is possible: the first step that is not recorded.")
    missing: list[MissingDocument] | None = Field(None, description="If it is unknown: what is missing.")


class ExplanationDocument(RelationDocument):
    """How one event led to another."""

    steps: list[StepDocument] = Field(description="From the cause to the effect; empty if no path leads there.")


class ConcurrentDocument(AnsweredDocument):
    """Events that are concurrent with an event: neither can have led to the other."""

    event: EventDocument
    events: list[EventDocument] = Field(description="The k nearest in history order.")
    more: bool
    total: int = Field(description="How many there are.")
    unknown: int = Field(description="How many events may be concurrent or not, because reports are missing.")
    numbered: bool = NUMBERED


class MessageDocument(Document):
    """A message that was sent inside a cut and received outside it."""

    key: str | None
    from_: str = Field(alias="from", description="The process that sent it.")
    to: str = Field(description="The process that received it.")
    sent: EventDocument
    received: EventDocument
    assumed: bool = Field(False, description="Whether it is an answer that is only assumed.")


class CutDocument(AnsweredDocument):
    """A consistent state: it contains everything that may have led to any of its events."""

    event: EventDocument | None = Field(None, description="The event whose causal past this is.")
    time: int | None = Field(None, description="The time; events with causal times up to it are in the state.")
    total: int = Field(description="How many events are in it.")
    last_events: list[EventDocument] = Field(description="The last event of each process that has one in it.")
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
    messages: int = Field(description="How many of its events send or receive a message.")
    first_hole: int | None = Field(description="The number of its first event right before which a report is missing.")
    first_tainted: int | None = Field(
        description="The number of its first event with a report missing in its past: from there on nothing is provable."
    )
    first_gone: int | None = Field(
        description="The number of its first event that may come after a report which was quarantined or came late."
    )
    gone_why: str | None = Field(description="Why that report was quarantined, or that it came late.")


class ProvableDocument(Document):
    """For how many events it can be proved what cannot have led to them."""

    events: int
    processes: int
    provable: int = Field(description="Events with no report known to be missing in their past.")
    silent_processes: int = Field(description="Processes that report no messages, while others do.")
    silent_events: int = Field(description="Events of silent processes; none is provable.")
    silent: list[str] = Field(description="Names of some silent processes.")
    numbered: bool = Field(description="Whether all events have numbers. If not, a lost report may go unnoticed.")
    first_missing: str | None = Field(description="One of the first events right before which a report is missing.")
    connected: bool = Field(description="False if there are several processes and nothing leads from one to another.")
    spans: bool = Field(description="If not connected: whether there are spans, whose parents would connect processes.")


class CheckDocument(Document):
    """What was counted when the history was made."""

    events: int
    ledger: dict[str, Any] = Field(description="The number of reports, and what was done with them.")
    wall_clock: dict[str, Any] = Field(description="How the order by wall time contradicts causal order.")
    policies: dict[str, Any] = Field(description="The same, and the delays, for each delivery policy.")
    channels: dict[str, int] = Field(description="How sends and receives without keys were matched along channels.")
    provable: ProvableDocument


class QuarantinedDocument(Document):
    """A report that is counted and not used."""

    outcome: str = Field(description="quarantined or duplicate.")
    reason: str | None = Field(description="A code and a detail.", examples=["not-json: line 3 is not an object"])
    computation: str | None
    process: str | None
    file: str | None
    place: int | None
    text: str | None


class ClockDocument(BaseModel):
    """How far a clock is ahead of the reference, in the history's unit, and what that is derived from."""

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
    broken: list[str] = Field(description="Clocks that are wrong while the others agree.")
    eps: dict[str, Any] = Field(description="By how much two clocks differ, at_least and at_most.")
    lag: int | None
    eps_used: int | None
    groups: int
    same: list[dict[str, Any]] = Field(
        description="Clocks that cannot be told apart: names, and how far apart at most."
    )
    message_delays: dict[str, Any]
    report_delays: dict[str, Any]
    unit: str = Field(description="The unit of offsets and delays.")


class OrderedDocument(EventDocument):
    """An event in its order and, under a policy, its delivery."""

    at: int | None = Field(None, description="When it is delivered.")
    waited: int | None = Field(None, description="How long it waited.")
    late: bool | None = Field(None, description="Whether its report arrived too late for its place in the order.")
