"""What may have led to an event although nothing recorded says so: through the state of a process, or by an assumed answer.

Those that one step of shared state leads from come first, by what is most telling: what warns and is rare. Whoever asks
for more gets all others, the newest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.skeleton import Ints
from ledto.events.schema import ANSWER
from ledto.history import layout
from ledto.history.recorded import past_by_stretches, recorded_past
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.kernels import kernel
from ledto.questions.all_possible import Further, further_causes
from ledto.questions.event import Event, events_at
from ledto.questions.path import PROCESS, PathStep, path, unrecorded_step
from ledto.questions.why import Filter, by_event_groups, kept

MOST_CANDIDATES = 512
"""Of each sort: those in the same process as something recorded, and those that an assumed answer may have told of."""
MOST_GROUPS = 4
"""Row groups of the skeleton that are looked through for them."""
MOST_ROWS = MOST_GROUPS * layout.SKELETON_ROWS
ASKED_A_GROUP = 16
"""Who asks for many is given the time to look through one more row group for so many of them."""
TELLING_NAME = (
    r"(?i)chang|config|limit|restart|deploy|fail|error|timeout|timed out|migrat|roll(ed|ing|s)?.?(back|out)|reload|"
    r"rotat|evict|expire|refus|reject|denied|abort|crash|kill|panic|exception|degrad|flush|switch|scale|upgrade"
)
LOUD_ATTRIBUTE = (
    r'(?i)"(severity|level|severity_text|status)" *: *'
    r'"(warn|warning|error|err|severe|critical|crit|fatal|alert|emergency|panic)"'
)
RARE_SHARE = 50
"""A name is rare that at most one in so many candidates has, or only one of them."""


@dataclass(frozen=True, slots=True)
class Possible:
    """An event that may have led to another."""

    event: Event
    through: PathStep
    """The first step towards the other that is not recorded: which process or answer, and how close in time."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {"event": self.event.to_json(), "through": self.through.to_json()}


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    position: Longs
    follower: Longs
    """By candidate: the next event of its process that led to the asked one; -1 where an answer is assumed."""
    all_seen: bool
    """Whether there are no others."""


def possible_causes(
    run: Run, position: int, most: int, wanted: Filter, *, answered: bool = False
) -> tuple[tuple[Possible, ...], bool]:
    """Find up to `most` of them, the most telling first; and tell whether there may be others.

    Where there are no more than `most` in all, and time to look through the past was given, all of them are found.

    `answered`: answers that are only assumed count as recorded.
    """
    if not most:
        return (), True
    lines = _lines_of(run, position, answered)
    found = _candidates(run, position, answered)
    if len(waits := found.position[_are_awaited(run, found.position, lines)]):
        # What the spans did that were most likely waited for counts as near, too.
        found = _candidates(run, position, answered, waits.tolist())
    if not wanted.takes_all and len(found.position):
        starts = run.segments.first_position
        number = np.searchsorted(starts, found.position, side="right")
        pieces = [
            kept(run, stretch, wanted)
            for each in np.unique(number)
            for stretch in by_event_groups(run, np.sort(found.position[number == each]))
        ]
        chosen = np.isin(found.position, np.concatenate([np.empty(0, np.int64), *pieces]))
        found = _Candidates(found.position[chosen], found.follower[chosen], found.all_seen)
    best = _most_telling(run, found, lines)[:most]
    places, followers = found.position[best], found.follower[best]
    both = events_at(run, np.concatenate((places, followers[followers >= 0])))
    events, after = both[: len(best)], {event.position: event for event in both[len(best) :]}
    nearest = tuple(
        Possible(event, _assumed_step(run, event, position) if follower < 0 else _shared(event, after[follower]))
        for event, follower in zip(events, followers.tolist(), strict=True)
    )
    if len(found.position) > most:
        return nearest, True
    left = most - len(nearest)
    groups = max(MOST_GROUPS, most // ASKED_A_GROUP)
    further = further_causes(run, position, left + 1, groups, wanted, found.position, answered=answered)
    return (*nearest, *_told(run, further, left)), len(further.position) > left or not further.all_seen


def _told(run: Run, further: Further, most: int) -> Iterator[Possible]:
    position, cause, effect = further.position[:most], further.cause[:most], further.effect[:most]
    places = np.unique(np.concatenate((position, cause, effect)))
    events = dict(zip(places.tolist(), events_at(run, places), strict=True))
    for own, start, end in zip(position.tolist(), cause.tolist(), effect.tolist(), strict=True):
        yield Possible(events[own], unrecorded_step(run, events[start], events[end]))


def _shared(cause: Event, effect: Event) -> PathStep:
    return PathStep(PROCESS, cause, effect, None)


def _assumed_step(run: Run, event: Event, position: int) -> PathStep:
    return next(step for step in path(run, event.position, position) or () if not step.recorded)


def _candidates(run: Run, position: int, answers_count: bool, waits: Sequence[int] = ()) -> _Candidates:
    """The nearest events of the wide past that are not in the recorded one, as far as one step of either kind leads.

    `waits` are events of it that most likely led to the event, and what led to these is near as well.
    """
    following = np.full(len(run.processes), -1, np.int64)
    shared: list[tuple[Longs, Longs]] = []
    answered: list[Longs] = []
    shared_count = answered_count = 0
    looked_through = 0
    for number, begin, stop, led, recorded in past_by_stretches(run, position, answered=answers_count, besides=waits):
        if looked_through >= MOST_ROWS or shared_count >= MOST_CANDIDATES or answered_count >= MOST_CANDIDATES:
            return _Candidates(*_concatenated(shared, answered), all_seen=False)
        looked_through += stop - begin
        start = int(run.segments.first_position[number]) + begin
        group, row = divmod(begin, layout.SKELETON_ROWS)
        process = run.process_group(number, group)[row : row + stop - begin].astype(np.int32)
        is_led = np.zeros(len(process), np.bool_)
        is_led[led - start] = True
        codes = run.segments.codes_of(number).astype(np.int64)
        limit = MOST_CANDIDATES - shared_count
        rows, followers = np.empty(limit, np.int64), np.empty(limit, np.int64)
        count = _in_led_processes(process, codes, is_led, start, following, rows, followers)
        shared.append((rows[:count] + start, followers[:count]))
        shared_count += count
        is_led[recorded - start] = False
        answered.append((np.flatnonzero(is_led)[::-1] + start)[: MOST_CANDIDATES - answered_count])
        answered_count += len(answered[-1])
    return _Candidates(
        *_concatenated(shared, answered), all_seen=max(shared_count, answered_count) < MOST_CANDIDATES
    )  # fmt: skip


def _concatenated(shared: list[tuple[Longs, Longs]], answered: list[Longs]) -> tuple[Longs, Longs]:
    told = np.concatenate([np.empty(0, np.int64), *answered])
    rows, followers = ([each[part] for each in shared] for part in (0, 1))
    return (
        np.concatenate([np.empty(0, np.int64), *rows, told]),
        np.concatenate([np.empty(0, np.int64), *followers, np.full(len(told), -1)]),
    )


@kernel("int64(int32[::1], int64[::1], boolean[::1], int64, int64[::1], int64[::1], int64[::1])")
def _in_led_processes(
    process: Ints,
    codes: Longs,
    is_led: NDArray[np.bool_],
    start: int,
    following: Longs,
    rows: Longs,
    followers: Longs,
) -> int:
    """Find rows, the newest first, in whose process a later event leads on; `following` has the next such of each."""
    count = 0
    for row in range(len(process) - 1, -1, -1):
        own = codes[process[row]]
        if is_led[row]:
            following[own] = start + row
        elif following[own] >= 0 and count < len(rows):
            rows[count], followers[count] = row, following[own]
            count += 1
    return count


def _lines_of(run: Run, position: int, answered: bool) -> pa.Array:
    """The lines of the events that last led to an event, as far as one row group tells."""
    past = next(recorded_past(run, np.array([position], np.int64), answered=answered))
    if "line" not in run.event_schema().names:
        return pa.array([], pa.string())
    return pc.unique(run.rows(past[-MOST_CANDIDATES:], ["line"])["line"].cast(pa.string())).drop_null()


def _are_awaited(run: Run, positions: Longs, lines: pa.Array) -> NDArray[np.bool_]:
    """By event: whether it ends a span that one of these lines started, and was likely waited for."""
    if not len(lines) or not len(positions):
        return np.zeros(len(positions), np.bool_)
    by_place = np.argsort(positions)
    sends = run.rows(positions[by_place], ["sends"])["sends"].cast(pa.string())
    found = np.empty(len(positions), np.bool_)
    found[by_place] = _flags(pc.is_in(sends, value_set=pc.binary_join_element_wise(ANSWER, lines, "")))
    return found


def _most_telling(run: Run, found: _Candidates, lines: pa.Array) -> Longs:
    """Places of the candidates: those that warn and are rare, those that warn, those that are rare, all others; each by
    how soon, in history order, something recorded followed.

    Of all these, ends of spans come first that one of these lines started: it most likely waited for them.
    """
    if not len(found.position):
        return np.empty(0, np.int64)
    by_place = np.argsort(found.position)
    columns = ["name", "attributes"]
    columns += ["error"] if "error" in run.event_schema().names else []
    rows = run.rows(found.position[by_place], columns)
    names = pc.fill_null(rows["name"].cast(pa.string()), "").combine_chunks().dictionary_encode()
    code = names.indices.to_numpy(zero_copy_only=False)
    warns = _flags(pc.match_substring_regex(names.dictionary, TELLING_NAME))[code]
    warns |= _flags(pc.match_substring_regex(rows["attributes"].cast(pa.string()), LOUD_ATTRIBUTE))
    if "error" in columns:
        warns |= _flags(rows["error"])
    count = np.bincount(code)[code]
    rare = (count == 1) | (count * RARE_SHARE <= len(code))
    place, follower = found.position[by_place], found.follower[by_place]
    soon = np.where(follower >= 0, follower - place, 0)
    waited = _are_awaited(run, place, lines)
    order = np.lexsort((-place, soon, ~rare, ~warns, ~waited))
    return by_place[order]


def _flags(values: Any) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return found
