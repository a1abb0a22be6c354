"""Answer what state the system was in: what each process had done by an event or a time, and the messages under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ledto.causality.in_flight import messages_in_flight
from ledto.causality.order import NO_TIME
from ledto.events.keys import ANSWER
from ledto.history import layout
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.answer import LAST, RECEIVED, SENT, EventAnswer, count, name_event
from ledto.questions.event import Event, events_at
from ledto.questions.locate import row_of
from ledto.questions.parts import past_vector_at
from ledto.questions.relation import positions_of

if TYPE_CHECKING:
    from ledto.questions.path import ListedEdge


@dataclass(frozen=True, slots=True)
class MessageUnderWay:
    """A message that was sent inside a cut and received outside it."""

    key: str | None
    sent: Event
    received: Event

    @property
    def assumed(self) -> bool:
        """Whether it is an answer that is only assumed to have been received."""
        return self.key is not None and self.key.startswith(ANSWER)

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints; has ``assumed`` only if it is true."""
        document = {
            "key": self.key,
            "from": self.sent.process,
            "to": self.received.process,
            "sent": self.sent.to_json(),
            "received": self.received.to_json(),
        }
        return {**document, "assumed": True} if self.assumed else document


@dataclass(frozen=True, slots=True, repr=False)
class Cut(EventAnswer):
    """The answer of `History.cut`: a set of events that contains everything that may have led to any of them."""

    event: Event | None
    """The event whose causal past this is; None for a cut by time."""
    time: int | None
    """Events with causal times up to this one are in the cut; None for a cut by an event."""
    total: int
    """How many events are in the cut."""
    last_events: tuple[Event, ...]
    """The last event of each process that has one in the cut, by computation and process."""
    in_flight: tuple[MessageUnderWay, ...]
    """The first messages sent inside and received outside, in the order of their receives."""
    in_flight_total: int
    """How many such messages there are. A message whose receive nobody reported does not count."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        by = {"time": self.time} if self.event is None else {"event": self.event.to_json()}
        return {
            **by,
            "last_events": [event.to_json() for event in self.last_events],
            "total": self.total,
            "in_flight": [message.to_json() for message in self.in_flight],
            "in_flight_total": self.in_flight_total,
        }

    def listed(self) -> Sequence[tuple[str, Event]]:
        """List the last event of each process, then both ends of each message under way. Some may be listed twice."""
        ends = (((SENT, message.sent), (RECEIVED, message.received)) for message in self.in_flight)
        return (*((LAST, event) for event in self.last_events), *(end for both in ends for end in both))

    def steps_between(self) -> Sequence[ListedEdge]:
        from ledto.questions.path import ANSWERED, MESSAGE, ListedEdge

        return tuple(
            ListedEdge(message.sent.position, message.received.position, ANSWERED if message.assumed else MESSAGE)
            for message in self.in_flight
        )

    def summary(self) -> str:
        at = f"time {self.time}" if self.event is None else name_event(self.event)
        inside = f"{count(self.total, 'event')} of {count(len(self.last_events), 'process')}"
        return f"{at}: {inside}, {count(self.in_flight_total, 'message')} under way"

    def notes(self) -> Sequence[str]:
        more = self.in_flight_total - len(self.in_flight)
        return [f"{count(more, 'more message')} under way {'is' if more == 1 else 'are'} not listed."] if more else []


def cut_at_event(run: Run, position: int, k: int) -> Cut:
    """Cut at an event: take all that may have led to it, and the event itself."""
    number, _ = row_of(run, position)
    inside = np.zeros(len(run.processes), np.int64)
    inside[run.segments.codes_of(number)] = past_vector_at(run, position)
    (event,) = events_at(run, [position])
    return _cut(run, inside, k, event=event, time=None)


def cut_at_time(run: Run, time: int, k: int, codes: Longs) -> Cut:
    """Cut at a time: take the events of these processes with causal times up to it.

    `codes` are global, and must be all processes of one or more computations.
    """
    inside = np.zeros(len(run.processes), np.int64)
    segments = run.segments
    for number in range(len(segments)):
        # Events without any time in their past come first in a segment, and are in every cut.
        if segments.first_causal_time[number] > time and _causal_times(run, number, 0, 1)[0] != NO_TIME:
            continue
        counts = segments.counts_of(number)
        if segments.last_causal_time[number] > time:
            counts = np.bincount(_processes_until(run, number, time), minlength=len(counts))
        inside[segments.codes_of(number)] += counts
    chosen = np.zeros(len(run.processes), np.bool_)
    chosen[codes] = True
    inside[~chosen] = 0
    return _cut(run, inside, k, event=None, time=time)


def _processes_until(run: Run, number: int, time: int) -> Longs:
    """Return the process of each row with a causal time up to `time`, by binary search: causal times ascend."""
    rows = int(run.segments.rows[number])
    low, high = 0, -(-rows // layout.EVENT_ROWS)
    while low < high:
        middle = (low + high) // 2
        start = middle * layout.EVENT_ROWS
        if _causal_times(run, number, start, start + 1)[0] <= time:
            low = middle + 1
        else:
            high = middle
    start = max(0, low - 1) * layout.EVENT_ROWS
    times = _causal_times(run, number, start, min(rows, start + layout.EVENT_ROWS))
    return run.skeleton(number, 0, start + int(np.searchsorted(times, time, side="right"))).process.astype(np.int64)


def _causal_times(run: Run, number: int, start: int, stop: int) -> Longs:
    """Read the times that order the rows of a segment; `NO_TIME` where there is none."""
    by = layout.PLACED_BY if run.has_column(number, layout.PLACED_BY) else "causal_time"
    column = run.events(number, [by], start, stop)[by]
    times: Longs = column.fill_null(NO_TIME).to_numpy()
    return times


def _cut(run: Run, inside: Longs, k: int, *, event: Event | None, time: int | None) -> Cut:
    """Make the answer from how many events of each process, by global code, are in the cut."""
    present = np.flatnonzero(inside)
    last = sorted(
        events_at(run, positions_of(run, present, inside[present])),
        key=lambda event: (event.computation, event.process),
    )
    sends, receives = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for segment_sends, segment_receives in _in_flight(run, inside):
        sends.append(segment_sends)
        receives.append(segment_receives)
    sent, received = np.concatenate(sends), np.concatenate(receives)
    shown = events_at(run, np.concatenate((sent[:k], received[:k])))
    half = len(shown) // 2
    messages = tuple(
        MessageUnderWay(send.sends, send, receive) for send, receive in zip(shown[:half], shown[half:], strict=True)
    )
    return Cut(event, time, int(inside.sum()), tuple(last), messages, len(sent))


def _in_flight(run: Run, inside: Longs) -> Iterator[tuple[Longs, Longs]]:
    """Yield positions of sends and receives in flight, one segment at a time. Segments that cannot have any are not read."""
    segments = run.segments
    for number in range(len(segments)):
        codes, before, counts = segments.codes_of(number), segments.before_of(number), segments.counts_of(number)
        limits = inside[codes]
        if not limits.any() or (limits >= before + counts).all():
            continue
        first = int(segments.first_position[number])
        if (limits > before).any():
            skeleton = run.skeleton(number, 0, int(segments.rows[number]))
            yield messages_in_flight(skeleton, run.boundary(number), first, limits)
        else:
            into = run.messages_into(number)
            chosen = np.flatnonzero(into.index <= limits[into.process])
            order = chosen[np.lexsort((into.position[chosen], into.row[chosen]))]
            yield into.position[order], into.row[order] + first
