from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from ledto.history import AmbiguousEvent, EventNotFound, layout
from ledto.history.ids import LARGEST_HASH, candidate_rows, index_of_ids
from ledto.history.tables import processes_from
from ledto.questions import History
from tests.history.building import draw, write_history


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    random = Random(4)
    folder = tmp_path_factory.mktemp("locating") / "history"
    large = draw(random, "shop", 3, 40, gaps=True)
    write_history(folder, [(large, [20])], [[draw(random, "bank", 3, 12), draw(random, "mail", 2, 6)]])
    return History(folder)


@pytest.mark.parametrize(
    ("asked", "computation", "says"),
    [
        ("p0:999", "bank", "there is no event 999 of process 'p0' of computation 'bank': it has events 1 to "),
        ("p0:999", "shop", "with gaps: reports of it are missing"),
        ("p7:1", None, "there is no process 'p7'; there are 3, such as 'p"),
        ("nothing", None, "name it by PROCESS:SEQ"),
        ("p0:1", "bnak", "there is no computation 'bnak'; there are 3, such as 'bank'"),
        ("@100000", None, "positions are 0 to 57"),
        (-1, None, "positions are 0 to 57"),
    ],
)
def test_a_name_that_nothing_has_is_answered_with_what_there_is(
    history: History, asked: str | int, computation: str | None, says: str
) -> None:
    """Without it, the user cannot tell a typing error from a lost event."""
    with pytest.raises(EventNotFound, match=r"\w") as refused:
        history.why(asked, computation=computation)
    assert says in str(refused.value)


def test_a_name_of_several_computations_must_be_made_clear(history: History) -> None:
    """An answer about another computation's event would be believed."""
    shared = next(event for event in history.order() if event.computation == "bank")
    with pytest.raises(AmbiguousEvent) as refused:
        history.why(f"{shared.process}:1")
    assert "'bank'" in str(refused.value)
    assert "--computation" in str(refused.value)
    assert history.why(f"{shared.process}:1", computation="bank").event.computation == "bank"


@pytest.mark.parametrize("rows", [0, 1, 7, 5_000])
def test_ids_are_found_where_they_are_and_nowhere_else(rows: int, tmp_path: Path) -> None:
    """The index narrows a search over all events to some bytes; an id that it misses is not found at all."""
    random = Random(rows)
    ids = [f"é{random.getrandbits(40):x}" if random.random() < 0.9 else None for _ in range(rows)]
    path = tmp_path / "index"
    path.write_bytes(index_of_ids(pa.chunked_array([pa.array(ids, pa.string())])).tobytes())
    with pa.OSFile(str(path)) as file:
        for row, each in enumerate(ids):
            if each is not None and row % 7 == 0:
                assert row in candidate_rows(file, each)
        strangers = sum(len(candidate_rows(file, f"stranger {each}")) for each in range(200))
    assert strangers <= 1


def test_ids_are_found_when_hashes_crowd_together(tmp_path: Path) -> None:
    """Hashes need not be spread as evenly as expected: the search goes on until it has seen its place."""
    text = "needle"
    (own,) = index_of_ids(pa.chunked_array([pa.array([text])]))
    crowd = (np.arange(3_000, dtype=np.uint64) << np.uint64(32)) | np.uint64(1)
    lone = np.array([(int(own) >> 32 << 32) | 77], np.uint64)
    for entries in (np.sort(np.concatenate([crowd, lone])), np.sort(np.concatenate([~crowd, lone]))):
        path = tmp_path / "index"
        path.write_bytes(entries.tobytes())
        with pa.OSFile(str(path)) as file:
            assert candidate_rows(file, text) == [77]
    assert int(own) >> 32 < LARGEST_HASH


def test_a_service_means_all_lines_of_all_its_instances() -> None:
    """Who asks about a service need not know how many instances it had, nor what they did at once."""
    names = [
        *(("auth", "auth"), ("auth~2", "auth"), ("auth@10.0.3.17", "auth@10.0.3.17"), ("auth@pod-1~2", "auth@pod-1")),
        *(("auth@pod-1", None), ("author", "author"), ("oauth@pod-1", None), ("auth2@x", None)),
    ]
    rows = [
        {
            "code": code,
            "computation": "",
            "process": name,
            "clock_name": clock,
            "events": 1,
            "dense_seq": True,
            "messages": 0,
        }
        for code, (name, clock) in enumerate(names)
    ]
    processes = processes_from(pa.Table.from_pylist(rows, layout.PROCESSES))
    assert processes.called("auth").tolist() == [0, 1, 2, 3, 4]
    assert processes.called("auth@pod-1").tolist() == [3, 4]
    assert processes.called("aut").tolist() == processes.called("pod-1").tolist() == []


@pytest.mark.parametrize(
    ("codes", "told"), [([0, 1, 3], "code 2 is missing"), ([1], "code 0 is missing"), ([0, 1, 1], "code 1 does not")]
)
def test_a_table_of_processes_with_gaps_is_damage(codes: list[int], told: str) -> None:
    """Events would be shown under the names of other processes."""
    row = {"computation": "", "process": "p", "events": 1, "dense_seq": True, "messages": 0}
    with pytest.raises(
        ValueError, match=f"the table of processes is damaged: {told}.*make it again with ledto observe"
    ):
        processes_from(pa.Table.from_pylist([{"code": code, **row} for code in codes], layout.PROCESSES))
