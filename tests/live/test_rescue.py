"""A report that cannot be placed is quarantined, and the stream goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ledto.events.schema import REPORTS
from ledto.history.store import NoSpace
from ledto.live import LiveHistory, LiveWriter, blames_reports, rescue
from ledto.live import chain as chain_module
from tests.live.streams import BASE, MS, terms

GIVEN = terms(close_rows=4)


class Curse:
    """Lets the writer fail over reports of a process, as a defect that nobody knows of would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.process = "cursed"
        self.raises: list[BaseException] = [ValueError("no place")]
        """One after the other; the last one again and again."""
        self.only_closing = False
        solve = chain_module.solve

        def failing(table: pa.Table, names: list[str], window: Any, **options: Any) -> Any:
            closes = window.high != chain_module.LAST
            if self.process in names and (closes or not self.only_closing):
                raise self.raises.pop(0) if len(self.raises) > 1 else self.raises[0]
            return solve(table, names, window, **options)

        monkeypatch.setattr(chain_module, "solve", failing)


@pytest.fixture
def curse(monkeypatch: pytest.MonkeyPatch) -> Curse:
    return Curse(monkeypatch)


def reports(*processes: str, start: int = 0) -> pa.Table:
    rows = [
        {
            "computation": "",
            "process": process,
            "time": BASE + (start + at) * MS,
            "arrival": BASE + (start + at) * MS,
            "kind": "local",
            "id": f"{process}{start + at}",
            "file": "f",
            "place": start + at,
        }
        for at, process in enumerate(processes)
    ]
    return pa.Table.from_pylist(rows, REPORTS)


def taken(folder: Path, rows: pa.Table, now: int, position: int) -> None:
    """A micro-batch, as a stream takes it."""
    reopen = partial(LiveWriter, str(folder), GIVEN)
    writer = reopen()
    try:
        writer.step(rows, now=now, positions={"p": position})
    except Exception as fault:
        if not blames_reports(fault):
            raise
        writer.close()
        writer = rescue(reopen, rows, now=now, positions={"p": position}, fault=fault)
    finally:
        writer.close()


def told(folder: Path) -> tuple[list[str], list[tuple[int | None, str]], dict[str, int]]:
    """The events, what is quarantined with its reason, and the position."""
    live = LiveHistory(folder)
    history, state = live.current(), live.state()
    assert state is not None
    run = history.run
    events = [
        name
        for number in range(len(run.segments))
        for name in run.events(number, ["id"], 0, int(run.segments.rows[number]))["id"].to_pylist()
    ]
    quarantined = [(each.place, str(each.reason)) for each in history.quarantine(outcome=None)]
    return sorted(events), sorted(quarantined), state.positions


def test_the_report_that_fails_is_quarantined_and_the_others_are_committed(tmp_path: Path, curse: Curse) -> None:
    """Or one report that ledto cannot place stops everybody's history for good."""
    taken(tmp_path / "h", reports("a", "b", "cursed", "a", "b", "a", "b", "cursed"), BASE + 10 * MS, 8)
    events, quarantined, positions = told(tmp_path / "h")
    assert events == ["a0", "a3", "a5", "b1", "b4", "b6"]
    assert quarantined == [(place, "unplaceable: ValueError: no place") for place in (2, 7)]
    assert positions == {"p": 8}


def test_a_report_that_cannot_be_closed_is_quarantined(tmp_path: Path, curse: Curse) -> None:
    """It was taken, and fails only when its part is closed: then no later micro-batch could be committed."""
    curse.only_closing = True
    taken(tmp_path / "h", reports("a", "cursed", "b", "a", "b"), BASE + 10 * MS, 5)
    taken(tmp_path / "h", reports("a", start=10_000), BASE + 10_000 * MS, 6)
    events, quarantined, positions = told(tmp_path / "h")
    assert events == ["a0", "a10000", "a3", "b2", "b4"]
    assert quarantined == [(1, "unplaceable: ValueError: no place")]
    assert positions == {"p": 6}


@pytest.mark.parametrize(
    "fault", [OSError(28, "No space left on device"), NoSpace("the disk"), MemoryError(), KeyboardInterrupt()]
)
@pytest.mark.parametrize("before", [0, 1, 2])
def test_what_is_not_the_reports_fault_quarantines_nothing(
    tmp_path: Path, curse: Curse, fault: BaseException, before: int
) -> None:
    """A full disk or an interrupt, also while the report to blame is looked for: all reports are taken again, and count."""
    rows = reports("a", "b", "cursed", "a")
    curse.raises = [*[ValueError("no place")] * before, fault, ValueError("not reached")]
    with pytest.raises(type(fault)):
        taken(tmp_path / "h", rows, BASE + 10 * MS, 4)
    with LiveWriter(str(tmp_path / "h"), GIVEN) as writer:
        assert (writer.version, writer.positions) == (0, {})
    curse.process = "nobody"
    taken(tmp_path / "h", rows, BASE + 10 * MS, 4)
    assert told(tmp_path / "h") == (["a0", "a3", "b1", "cursed2"], [], {"p": 4})


def test_what_failed_once_and_not_again_is_committed_whole(tmp_path: Path, curse: Curse) -> None:
    """A fault that passes is nobody's: or a hiccup would throw good reports away."""
    curse.raises = [ValueError("once"), ValueError("once")]
    rows = reports("a", "cursed", "b")
    reopen = partial(LiveWriter, str(tmp_path / "h"), GIVEN)
    with pytest.raises(ValueError, match="once"), reopen() as writer:
        writer.step(rows, now=BASE, positions={"p": 3})
    curse.process = "nobody"
    rescue(reopen, rows, now=BASE + 10 * MS, positions={"p": 3}, fault=ValueError("once")).close()
    assert told(tmp_path / "h") == (["a0", "b2", "cursed1"], [], {"p": 3})
