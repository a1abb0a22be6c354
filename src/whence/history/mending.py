"""A segment without the receives whose message nobody sent, and with marks where a cause is missing otherwise.

Whether a receive's message was sent is not known in its window when the send may lie in another. The few segments
that turn out to hold such receives are written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from whence.causality.assembling import Detour, last_rows, place_rows
from whence.causality.ordering import Edges
from whence.causality.skeleton import Skeleton
from whence.history import layout
from whence.history.aside import Aside, count_codes
from whence.history.joining import Crossings, Joined, Neighbours, Place
from whence.history.reading import skeleton_from
from whence.history.segmenting import Made, Target, count_processes
from whence.history.writing import write_aside, write_segment

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Damage:
    """What is to be taken out of a segment. Pickles."""

    made: Made
    orphans: tuple[tuple[int, str], ...]
    """Places and the keys that nobody sends."""
    missing: tuple[tuple[int, str], ...]
    """The same for events that stay."""
    crossing_places: Longs
    """Places with a cause in an earlier segment, ascending ..."""
    crossing_numbers: Longs
    """... and the number of that crossing."""
    asked: Longs
    """Places that are causes in later segments."""


@dataclass(frozen=True, slots=True)
class Mended:
    """The segment that takes its place. Pickles."""

    made: Made
    orphan_aside_file: str | None
    effects: list[tuple[int, int, int]]
    """Effect's new place, or ``-1 - process`` for the next event of a process after the segment; the place of a cause here,
    or -1; and if -1 a label: a crossing's number, or ``-2 - process`` for a process's last event before the segment."""
    causes: dict[int, list[tuple[int, int]]]
    """For every place asked for: what stands for it, as (new place, -1) or (-1, label as in `effects`)."""


def mend(damage: Damage, target: Target) -> Mended:
    """Write the segment again without its orphans, and with what its other events miss."""
    made = damage.made
    assert made.files is not None
    folder = layout.run_folder(target.run)
    with target.store.open(f"{folder}/{made.files.events_file}") as file:
        events = pq.ParquetFile(file).read(use_threads=False)
    skeleton = read_skeleton(target, made.files.skeleton_file)
    events = _marked(events, damage.missing)
    dropped = np.zeros(len(events), np.bool_)
    dropped[[place for place, _ in damage.orphans]] = True
    edges = _with_crossings(skeleton, damage.crossing_places, damage.crossing_numbers)
    detour = Detour(skeleton.process, edges, dropped, carry_open=True)
    rows = np.flatnonzero(~dropped)
    carried = detour.carried(last_rows(skeleton.process, np.ones(len(events), np.bool_)))
    placed = place_rows(skeleton.process, detour.edges(), rows, carried)
    new_place = np.cumsum(~dropped) - 1

    aside = Aside()
    places = np.array([place for place, _ in damage.orphans], np.int64)
    aside.quarantine(places, "receive-without-send", [f"no event sends {key!r:.80}" for _, key in damage.orphans])
    orphans = aside.table(events)
    kept = events.take(pa.array(rows))
    kept = kept.set_column(kept.column_names.index("nth"), "nth", pa.array(placed.nth))
    attempt = uuid4().hex[:12]
    files = None
    if len(kept):
        files = write_segment(target.store, target.run, made.window, kept, placed.skeleton, attempt=attempt)
    names = list(zip(made.counts.computations, made.counts.names, strict=True))
    causal_time = kept["causal_time"]
    replaced = Made(
        made.window,
        len(kept),
        count_processes(names, placed.skeleton, kept),
        files,
        made.aside_file,
        None,
        causal_time[0].as_py() if len(kept) else 0,
        causal_time[-1].as_py() if len(kept) else 0,
        made.duplicates,
        made.quarantined + len(orphans),
        made.reasons + count_codes(orphans),
        made.attributes,
        made.lag,
        made.lag_event,
        len(kept) - kept["missing"].null_count,
    )
    return Mended(
        replaced,
        write_aside(target.store, target.run, orphans, attempt=f"{made.window:05d}-{attempt}")
        if len(orphans)
        else None,
        list(zip(placed.open_place.tolist(), placed.open_cause.tolist(), placed.open_label.tolist(), strict=True)),
        {
            int(place): [(int(new_place[place]), -1)]
            if not dropped[place]
            else [
                (int(new_place[cause]), -1) if cause >= 0 else (-1, label) for cause, label in detour.around(int(place))
            ]
            for place in damage.asked
        },
    )


def _marked(events: pa.Table, missing: Sequence[tuple[int, str]]) -> pa.Table:
    marks = events["missing"].to_pylist() if missing else []
    for place, key in missing:
        marks[place] = sorted({*(marks[place] or ()), key})
    at = events.column_names.index("missing")
    return events.set_column(at, "missing", pa.array(marks, pa.list_(pa.string()))) if missing else events


def read_skeleton(target: Target, name: str) -> Skeleton:
    """A whole segment's skeleton."""
    with target.store.open(f"{layout.run_folder(target.run)}/{name}") as file:
        table = pq.ParquetFile(file).read(use_threads=False)
    return skeleton_from(table)


def _with_crossings(skeleton: Skeleton, places: Longs, numbers: Longs) -> Edges:
    """The skeleton's edges, and an edge to nowhere, labelled with its number, for each crossing."""
    effects = np.repeat(np.arange(len(skeleton)), np.diff(skeleton.offsets))
    all_effects = np.concatenate((effects, places))
    causes = np.concatenate((skeleton.cause_rows(), np.full(len(places), -1)))
    labels = np.concatenate((np.full(len(effects), -1), numbers))
    by_effect = np.argsort(all_effects, kind="stable")
    counts = np.bincount(all_effects, minlength=len(skeleton))
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return Edges(offsets, causes[by_effect].astype(np.int64), labels[by_effect].astype(np.int64))


def find_damage(made: Sequence[Made], joined: Joined) -> list[Damage]:
    """The segments that hold orphans."""
    crossings = joined.crossings
    effect_window, effect_place = (
        np.array(crossings.effect_window, np.int64),
        np.array(crossings.effect_place, np.int64),
    )
    cause_window, cause_place = np.array(crossings.cause_window, np.int64), np.array(crossings.cause_place, np.int64)
    damages = []
    for each in made:
        if each.window in joined.orphans or each.window in joined.missing:
            mine = np.flatnonzero((effect_window == each.window) & (effect_place >= 0))
            mine = mine[np.argsort(effect_place[mine], kind="stable")]
            asked = np.unique(cause_place[(cause_window == each.window) & (cause_place >= 0)])
            orphans = tuple(sorted(dict(sorted(joined.orphans.get(each.window, ()), reverse=True)).items()))
            missing = tuple(sorted(joined.missing.get(each.window, ())))
            damages.append(Damage(each, orphans, missing, effect_place[mine], mine, asked))
    return damages


def follow(crossings: Crossings, repairs: Sequence[Mended], made: Sequence[Made]) -> tuple[list[Made], Crossings]:
    """The segments with the mended ones in place, and the crossings between them: moved, and dropped causes replaced."""
    mended = {each.made.window: each for each in repairs}
    made = [mended[each.window].made if each.window in mended else each for each in made]
    neighbours = Neighbours(made)
    found = Crossings()

    def causes_of(label: int, window: int) -> list[Place]:
        """Where a crossing by its number, or a process's last event before a window, comes from now."""
        if label < -1:
            cause = neighbours.last_before(-2 - label, window)
            return [] if cause is None else [cause]
        cause_window, cause_place = crossings.cause_window[label], crossings.cause_place[label]
        if cause_place < 0 and not neighbours.has(-1 - cause_place, cause_window):
            cause = neighbours.last_before(-1 - cause_place, cause_window)
            return [] if cause is None else [cause]
        if cause_place < 0 or cause_window not in mended:
            return [(cause_window, cause_place)]
        places: list[Place] = []
        for place, further in mended[cause_window].causes[cause_place]:
            places.extend([(cause_window, place)] if place >= 0 else causes_of(further, cause_window))
        return places

    def add(window: int, place: int, causes: list[Place]) -> None:
        effect: Place | None = (window, place)
        if place < 0 and not neighbours.has(-1 - place, window):
            effect = neighbours.next_after(-1 - place, window)
        for cause in causes if effect is not None else ():
            assert effect is not None
            found.add(effect, cause)

    for number, (window, place) in enumerate(zip(crossings.effect_window, crossings.effect_place, strict=True)):
        if place < 0 or window not in mended:
            add(window, place, causes_of(number, window))
    for window, each in mended.items():
        for place, cause_place, label in each.effects:
            causes = [(window, cause_place)] if cause_place >= 0 else causes_of(label, window)
            if place < 0:
                later = neighbours.next_after(-1 - place, window)
                if later is not None:
                    add(*later, causes)
            else:
                add(window, place, causes)
    return made, found
