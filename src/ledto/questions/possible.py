"""Find possible causes of an event: through the shared state of a process, an assumed answer, or events at one time.

Near ones, with a single guess, come first: those that warn and are rare before the others. If more are asked for, all the
others follow, the newest first (`ledto.questions.all_possible`).
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
from ledto.events.keys import ANSWER
from ledto.history import layout
from ledto.history.recorded import past_by_stretches, recorded_past
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.kernels import kernel
from ledto.questions.all_possible import FurtherCauses, further_causes
from ledto.questions.event import Event, events_at
from ledto.questions.path import PROCESS, PathStep, path, unrecorded_step
from ledto.questions.why import Filter, by_event_groups, keep_wanted

MOST_CANDIDATES = 512
"""The most candidates of each sort: those that share a process with a recorded cause, and those before assumed answers."""
MOST_GROUPS = 4
"""How many row groups of the skeleton are searched for candidates."""
MOST_ROWS = MOST_GROUPS * layout.SKELETON_ROWS
ASKED_A_GROUP = 16
"""One more row group is searched for each so many causes that are asked for."""
WARNING_NAME = (
    r"(?i)chang|config|limit|restart|deploy|fail|error|timeout|timed out|migrat|roll(ed|ing|s)?.?(back|out)|reload|"
    r"rotat|evict|expire|refus|reject|denied|abort|crash|kill|panic|exception|degrad|flush|switch|scale|upgrade"
)
"""Names of events that warn: they tell of a change or a failure."""
WARNING_ATTRIBUTE = (
    r'(?i)"(severity|level|severity_text|status)" *: *'
    r'"(warn|warning|error|err|severe|critical|crit|fatal|alert|emergency|panic)"'
)
NO_FOLLOWER = -1
RARE_SHARE = 50
"""A name is rare if at most one in so many candidates has it, or only one of them."""


@dataclass(frozen=True, slots=True)
class Possible:
    """A possible cause of an event."""

    event: Event
    through: PathStep
    """The first step from it to the event that is not recorded."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return {"event": self.event.to_json(), "through": self.through.to_json()}


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Near possible causes, by position."""

    position: Longs
    follower: Longs
    """By candidate: the position of the next event of its process that led to the asked one; `NO_FOLLOWER` for a candidate
    that an assumed answer leads from."""
    all_seen: bool
    """Whether there are no others."""


def possible_causes(
    run: Run, position: int, most: int, wanted: Filter, *, answered: bool = False
) -> tuple[tuple[Possible, ...], bool]:
    """Find up to `most` wanted possible causes, the most useful first; return them, and whether there may be more.

    If there are no more than `most`, and the past is within the row groups that are searched, all of them are found.
    `answered`: count assumed answers as recorded.
    """
    if not most:
        return (), True
    lines = _lines_of(run, position, answered)
    near = _candidates(run, position, answered)
    if len(waits := near.position[_are_awaited(run, near.position, lines)]):
        # What led to spans that were probably waited for counts as near, too.
        near = _candidates(run, position, answered, waits.tolist())
    near = _keep_wanted_candidates(run, near, wanted)
    best = _rank(run, near, lines)[:most]
    positions, followers = near.position[best], near.follower[best]
    both = events_at(run, np.concatenate((positions, followers[followers != NO_FOLLOWER])))
    events, after = both[: len(best)], {event.position: event for event in both[len(best) :]}
    nearest = tuple(
        Possible(
            event,
            _assumed_step(run, event, position)
            if follower == NO_FOLLOWER
            else PathStep(PROCESS, event, after[follower], None),
        )
        for event, follower in zip(events, followers.tolist(), strict=True)
    )
    if len(near.position) > most:
        return nearest, True
    remaining = most - len(nearest)
    groups = max(MOST_GROUPS, most // ASKED_A_GROUP)
    further = further_causes(run, position, remaining + 1, groups, wanted, near.position, answered=answered)
    more = len(further.position) > remaining or not further.all_seen
    return (*nearest, *_make_possible(run, further, remaining)), more


def _keep_wanted_candidates(run: Run, candidates: _Candidates, wanted: Filter) -> _Candidates:
    if wanted.takes_all or not len(candidates.position):
        return candidates
    numbers = np.searchsorted(run.segments.first_position, candidates.position, side="right")
    kept = [
        keep_wanted(run, group, wanted)
        for number in np.unique(numbers)
        for group in by_event_groups(run, np.sort(candidates.position[numbers == number]))
    ]
    chosen = np.isin(candidates.position, np.concatenate([np.empty(0, np.int64), *kept]))
    return _Candidates(candidates.position[chosen], candidates.follower[chosen], candidates.all_seen)


def _make_possible(run: Run, further: FurtherCauses, most: int) -> Iterator[Possible]:
    """Read the events of up to `most` further causes."""
    position, cause, effect = further.position[:most], further.cause[:most], further.effect[:most]
    places = np.unique(np.concatenate((position, cause, effect)))
    events = dict(zip(places.tolist(), events_at(run, places), strict=True))
    for asked, start, end in zip(position.tolist(), cause.tolist(), effect.tolist(), strict=True):
        yield Possible(events[asked], unrecorded_step(run, events[start], events[end]))


def _assumed_step(run: Run, event: Event, position: int) -> PathStep:
    """Find the first step that is not recorded on the path from an event to a position."""
    return next(step for step in path(run, event.position, position) or () if not step.recorded)


def _candidates(run: Run, position: int, answers_count: bool, waits: Sequence[int] = ()) -> _Candidates:
    """Find the nearest events of the wide past that are not in the recorded past, with a single guess.

    `waits`: further events that probably led to the event; their causes are near, too.
    """
    following = np.full(len(run.processes), -1, np.int64)
    shared: list[tuple[Longs, Longs]] = []
    answered: list[Longs] = []
    shared_count = answered_count = 0
    searched_rows = 0
    for number, begin, stop, led, recorded in past_by_stretches(run, position, answered=answers_count, besides=waits):
        if searched_rows >= MOST_ROWS or shared_count >= MOST_CANDIDATES or answered_count >= MOST_CANDIDATES:
            return _Candidates(*_concatenated(shared, answered), all_seen=False)
        searched_rows += stop - begin
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
    """Join both sorts of candidates; return positions and followers."""
    without_follower = np.concatenate([np.empty(0, np.int64), *answered])
    positions, followers = ([piece[column] for piece in shared] for column in (0, 1))
    return (
        np.concatenate([np.empty(0, np.int64), *positions, without_follower]),
        np.concatenate([np.empty(0, np.int64), *followers, np.full(len(without_follower), NO_FOLLOWER)]),
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
    """Find rows, the newest first, that are followed in their process by an event that led on; return how many.

    `following` has, by process, the position of the next event that led on; -1 for none so far. It is updated.
    """
    count = 0
    for row in range(len(process) - 1, -1, -1):
        code = codes[process[row]]
        if is_led[row]:
            following[code] = start + row
        elif following[code] >= 0 and count < len(rows):
            rows[count], followers[count] = row, following[code]
            count += 1
    return count


def _lines_of(run: Run, position: int, answered: bool) -> pa.Array:
    """Collect the lines of the last recorded causes of an event, within one row group."""
    past = next(recorded_past(run, np.array([position], np.int64), answered=answered))
    if "line" not in run.event_schema().names:
        return pa.array([], pa.string())
    return pc.unique(run.rows(past[-MOST_CANDIDATES:], ["line"])["line"].cast(pa.string())).drop_null()


def _are_awaited(run: Run, positions: Longs, lines: pa.Array) -> NDArray[np.bool_]:
    """Tell for each event whether it ends a span that one of these lines started, and so was probably waited for."""
    if not len(lines) or not len(positions):
        return np.zeros(len(positions), np.bool_)
    order = np.argsort(positions)
    sends = run.rows(positions[order], ["sends"])["sends"].cast(pa.string())
    awaited = np.empty(len(positions), np.bool_)
    awaited[order] = _flags(pc.is_in(sends, value_set=pc.binary_join_element_wise(ANSWER, lines, "")))
    return awaited


def _rank(run: Run, candidates: _Candidates, lines: pa.Array) -> Longs:
    """Return the indices of the candidates, the most useful first.

    First come ends of spans that one of the lines started: it probably waited for them. Then come those that warn and are
    rare, those that warn, those that are rare, and all others; each by how soon a recorded cause followed.
    """
    if not len(candidates.position):
        return np.empty(0, np.int64)
    by_position = np.argsort(candidates.position)
    columns = ["name", "attributes"]
    columns += ["error"] if "error" in run.event_schema().names else []
    rows = run.rows(candidates.position[by_position], columns)
    names = pc.fill_null(rows["name"].cast(pa.string()), "").combine_chunks().dictionary_encode()
    code = names.indices.to_numpy(zero_copy_only=False)
    warns = _flags(pc.match_substring_regex(names.dictionary, WARNING_NAME))[code]
    warns |= _flags(pc.match_substring_regex(rows["attributes"].cast(pa.string()), WARNING_ATTRIBUTE))
    if "error" in columns:
        warns |= _flags(rows["error"])
    count = np.bincount(code)[code]
    rare = (count == 1) | (count * RARE_SHARE <= len(code))
    position, follower = candidates.position[by_position], candidates.follower[by_position]
    distance = np.where(follower != NO_FOLLOWER, follower - position, 0)
    awaited = _are_awaited(run, position, lines)
    return by_position[np.lexsort((-position, distance, ~rare, ~warns, ~awaited))]


def _flags(values: Any) -> NDArray[np.bool_]:
    """Turn Arrow booleans into NumPy's; null is False."""
    flags: NDArray[np.bool_] = pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return flags
