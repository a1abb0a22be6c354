"""Fronts of lines, compared with fronts that are written out as sets of rows."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledto.causality.lines import LineRows, find_fronts
from ledto.causality.recorded_past import RecordedCauses, members
from tests.examples import examples


def drawn(random: Random, rows: int) -> LineRows:
    """Rows of a few lines, which start and end into each other and wait for each other."""
    lines = random.randint(1, 6)
    line = [random.randrange(lines) for _ in range(rows)]
    phase = [random.choice((None, "start", "end", "end")) for _ in range(rows)]
    parent = [random.choice((-1, *(each for each in range(lines) if each != own))) for own in line]
    joins = [random.sample(range(lines), random.choice((0, 0, 0, 1))) for _ in range(rows)]
    return LineRows(
        np.array(line, np.int64),
        np.array(parent, np.int64),
        np.array([each == "start" for each in phase], np.bool_),
        np.array([each == "end" for each in phase], np.bool_),
        np.cumsum([0, *map(len, joins)]).astype(np.int64),
        np.array([each for some in joins for each in some], np.int64),
        lines,
    )


def pasts(rows: LineRows) -> list[set[int]]:
    """Give for each row all rows that lead to it, from fronts written out as sets."""
    fronts: dict[int, set[int]] = {}
    found: list[set[int]] = []
    for row, (own, parent) in enumerate(zip(rows.line.tolist(), rows.parent.tolist(), strict=True)):
        begins = rows.starts[row] or (own not in fronts and parent >= 0 and not rows.ends[row])
        followed = set(fronts.get(parent if begins else own, ()))
        for joined in rows.joins[rows.join_offsets[row] : rows.join_offsets[row + 1]].tolist():
            followed |= fronts.get(joined, set())
        found.append({each for cause in followed for each in (cause, *found[cause])})
        fronts[own] = {row}
        if rows.ends[row] and parent >= 0:
            fronts[parent] = fronts.get(parent, set()) | {row}
    return found


@examples(200)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 40))
def test_rows_follow_all_that_their_lines_did_and_no_more(seed: int, rows: int) -> None:
    """If shared fronts differ from those written out, a cause is lost, or an event is blamed that led to nothing."""
    lines = drawn(Random(seed), rows)
    found, truth = find_fronts(lines), pasts(lines)
    effect = np.repeat(np.arange(rows), np.diff(found.offsets))
    rest = np.where(found.lists.rest >= 0, 2 * np.arange(rows) - found.lists.rest, 0)
    recorded = RecordedCauses(found.offsets, 2 * effect - found.follows, rest)
    told, which = members(found.follows, found.lists.rest, found.lists.low)
    reached: list[set[int]] = []
    for row in range(rows):
        past, leaving = recorded.past_of(np.array([2 * row], np.int64))
        assert (set(past.tolist()), len(leaving)) == (truth[row] | {row}, 0)
        direct = told[np.isin(which, np.flatnonzero(effect == row))].tolist()
        reached.append({each for cause in direct for each in (cause, *reached[cause])})
    assert reached == truth


def test_many_that_follow_many_take_little_memory() -> None:
    """A span with a hundred thousand children, and then as many again, would take all memory there is."""
    children = 2_000
    first, second = range(1, children + 1), range(children + 1, 2 * children + 1)
    told = [(0, -1, "start")]
    told += [(child, 0, phase) for some in (first, second) for phase in ("start", "end") for child in some]
    line, parent, phase = zip(*told, (0, -1, "end"), strict=True)
    rows = LineRows(
        np.array(line, np.int64),
        np.array(parent, np.int64),
        np.array([each == "start" for each in phase], np.bool_),
        np.array([each == "end" for each in phase], np.bool_),
        np.zeros(len(line) + 1, np.int64),
        np.empty(0, np.int64),
        2 * children + 1,
    )
    found = find_fronts(rows)
    assert len(found.follows) <= len(line)
    starts_again = 2 * children + 1
    expected = list(range(2 * children, children, -1))
    for row in (starts_again, starts_again + children - 1):
        followed = found.follows[found.offsets[row] : found.offsets[row + 1]]
        assert members(followed, found.lists.rest, found.lists.low)[0].tolist() == expected
