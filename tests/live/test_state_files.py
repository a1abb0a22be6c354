"""The state of a live history: no pickles, and another version's is refused and left alone."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ledto.batch.inline import InlineEngine
from ledto.batch.observe import Delivering, RunSettings, observe
from ledto.history.errors import DamagedHistory, UnsupportedFormat
from ledto.history.store import Store
from ledto.live import LiveHistory, LiveWriter, state
from ledto.sources.inputs import find_inputs
from tests.live.streams import hard_stream, terms


def begin(folder: Path) -> None:
    """A history with closed parts, a tail and reports quarantined, to which two writers came."""
    _, table = hard_stream(Random(11))
    half = len(table) // 2
    for part in (table.slice(0, half), table.slice(half)):
        with LiveWriter(str(folder), terms(close_rows=25)) as writer:
            for start in range(0, len(part), 20):
                rows = part.slice(start, 20)
                writer.step(rows, now=rows["arrival"][-1].as_py())
    assert writer.closed.chains[""].records
    assert writer.tail_rows


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_no_file_is_a_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write to a folder could run code in whatever reads it: also by files that a run leaves for a moment."""
    monkeypatch.setattr(Store, "delete", lambda store, name: None)
    begin(tmp_path / "live")
    lines = [f'{{"process": "p{at % 3}", "time": {at}, "kind": "local"}}' for at in range(50)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    settings = RunSettings(eps=1, epoch_rows=20, delivering=Delivering(("exact",)))
    observe(InlineEngine(), find_inputs([str(tmp_path / "log.jsonl")]), str(tmp_path / "batch"), settings)
    found = contents(tmp_path)
    assert {".state", ".measured", ".arrow", ".npz", ".parquet"} <= {Path(name).suffix for name in found}
    assert not [name for name, data in found.items() if data[:1] == b"\x80"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"STATE_FORMAT": 999, "_this_version": lambda: "ledto 9.9"}, "format 999, written by ledto 9.9, and ledto 0"),
        ({"SUFFIX": "pickle"}, "format 1, written by an early version"),
    ],
)
def test_the_state_of_another_version_is_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, object], told: str
) -> None:
    """An upgrade would go on from what it misunderstands, or delete what the version before could have gone on from."""
    with monkeypatch.context() as other:
        for name, value in changed.items():
            other.setattr(state, name, value)
        begin(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(UnsupportedFormat) as refused:
        LiveWriter(str(tmp_path))
    assert told in str(refused.value)
    goes_on = f"goes on from format {state.STATE_FORMAT}"
    for advice in (str(tmp_path), goes_on, "Nothing was changed", "follow into another folder"):
        assert advice in str(refused.value)
    assert contents(tmp_path) == before
    assert LiveHistory(tmp_path).current().check().ledger["reports"] == len(hard_stream(Random(11))[1])


def test_state_that_makes_no_sense_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with the right sum and the wrong content would stop the service with a traceback nobody can act on."""
    with monkeypatch.context() as other:
        other.setattr(state, "encode", lambda value: b"\xc0")
        with LiveWriter(str(tmp_path)) as writer:
            writer.step(hard_stream(Random(11))[1], now=0)
    with pytest.raises(DamagedHistory, match=r"closed-.*\.state is damaged: its content is not a ClosedState"):
        LiveWriter(str(tmp_path))
