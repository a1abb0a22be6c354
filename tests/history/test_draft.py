from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from msgspec.structs import replace

from ledto.errors import LedtoError
from ledto.history import (
    DamagedHistory,
    Draft,
    HistoryError,
    HistoryInUse,
    HistoryReplaced,
    NoHistory,
    UnsupportedFormat,
    layout,
)
from ledto.history import store as storage
from ledto.history.manifest import Manifest, WallClockSummary, read_manifest, write_manifest
from ledto.history.store import NoSpace, Store
from ledto.questions import History
from tests.history.building import draw, write_history
from tests.history.manifests import description, stream

KILLED = 9
STEPS = ("write", "writing", "create", "make_folder", "delete", "delete_folder", "sync")
"""What a run does to files. The process dies before each of them in turn, and in the middle of each file."""


def write(folder: Path, seed: int, events: int) -> None:
    write_history(folder, [(draw(Random(seed), "", 3, events), [events // 2])], [])


def contents(folder: Path) -> list[tuple[str, int]]:
    return [(event.id, event.position) for event in History(folder).order()]


def die_before_step(step: int) -> None:
    """From now on the process ends, without clean-up, when it is about to take its step-th step."""
    taken = 0
    originals = {name: getattr(Store, name) for name in STEPS}

    def counted(name: str):
        def call(self: Store, *arguments: object, **options: object) -> object:
            nonlocal taken
            taken += 1
            if taken == step:
                os._exit(KILLED)
            return originals[name](self, *arguments, **options)

        return call

    for name in STEPS:
        setattr(Store, name, counted(name))
    replace, fsync = os.replace, os.fsync

    def dying(original):
        def call(*arguments: object) -> object:
            nonlocal taken
            taken += 1
            if taken == step:
                os._exit(KILLED)
            return original(*arguments)

        return call

    os.replace, os.fsync = dying(replace), dying(fsync)


def write_and_die(folder: Path, step: int) -> int:
    child = os.fork()
    if child == 0:
        try:
            die_before_step(step)
            write(folder, seed=2, events=8)
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at_every_step(folder: Path) -> int:
    """Write one history, then another over it, killed at each step; gives the number of steps."""
    whole = folder / "new"
    write(whole, seed=2, events=8)
    new = contents(whole)
    step = 0
    while True:
        step += 1
        history = folder / f"history {step}"
        write(history, seed=1, events=6)
        old = contents(history)
        code = write_and_die(history, step)
        if contents(history) not in (old, new):
            raise AssertionError(f"killed before step {step}, the history is neither the old one nor the new one")
        write(history, seed=2, events=8)
        if contents(history) != new or len(os.listdir(history / layout.RUNS)) != 1:
            raise AssertionError(f"killed before step {step}, the next run did not put things right")
        if list(history.glob("**/.writing-*")):
            raise AssertionError(f"killed before step {step}, files were left behind")
        if code == 0:
            return step
        if code != KILLED:
            raise AssertionError(f"the run failed by itself with {code}")


def test_a_run_killed_at_any_step_leaves_the_old_history_or_the_new_one() -> None:
    """After a crash a user has a history that answers rightly, or the one before; never half of one."""
    # In a process of its own: forking needs one thread, and this one may have more.
    code = """
        import sys, tempfile
        from pathlib import Path
        sys.path.insert(0, sys.argv[1])
        from history.test_draft import kill_at_every_step
        with tempfile.TemporaryDirectory() as folder:
            print(kill_at_every_step(Path(folder)))
    """
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), tests], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 20


def test_two_runs_do_not_mix(tmp_path: Path) -> None:
    """A second run must not delete the files that the first is writing."""
    with Draft(tmp_path / "h") as first:
        with pytest.raises(HistoryInUse, match=f"run {first.run}") as refused:
            Draft(tmp_path / "h")
        assert str(os.getpid()) in str(refused.value)
        assert Store(tmp_path / "h").exists(first.folder)
    with Draft(tmp_path / "h") as second:
        assert Store(tmp_path / "h").names(layout.RUNS) == [second.run]


def test_the_lock_of_a_killed_run_does_not_stand_in_the_way(tmp_path: Path) -> None:
    """After kill -9 the same command simply works again."""
    code = "import os, sys; from ledto.history import Draft; Draft(sys.argv[1]); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "h")], check=False).returncode == -KILLED
    assert len(Store(tmp_path / "h").names(layout.RUNS)) == 1
    write(tmp_path / "h", seed=1, events=5)
    assert len(History(tmp_path / "h")) == 5
    assert len(Store(tmp_path / "h").names(layout.RUNS)) == 1


def test_a_reader_of_a_replaced_history_is_told(tmp_path: Path) -> None:
    """Otherwise it would report missing files, or mix two histories."""
    write(tmp_path, seed=1, events=20)
    old = History(tmp_path)
    write(tmp_path, seed=2, events=20)
    with pytest.raises(HistoryReplaced, match="open it again"):
        old.why(19)
    assert History(tmp_path).why(19).event.position == 19


def test_an_abandoned_run_leaves_nothing(tmp_path: Path) -> None:
    """A run that fails with an error must not fill the disk or touch the history."""
    write(tmp_path, seed=1, events=5)
    before = contents(tmp_path)
    with Draft(tmp_path) as draft:
        draft.store.write(f"{draft.folder}/events-00000-x.parquet", b"half")
    assert contents(tmp_path) == before
    assert len(Store(tmp_path).names(layout.RUNS)) == 1


def test_an_interrupt_just_after_the_commit_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the wrong instant must not leave a manifest whose files are gone."""

    def interrupted(store: Store, manifest: Manifest) -> None:
        write_manifest(store, manifest)
        raise KeyboardInterrupt

    monkeypatch.setattr("ledto.history.draft.write_manifest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, seed=1, events=5)
    assert len(contents(tmp_path)) == 5


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    """`--to .` must not turn a project into a history, nor delete its folder `runs`."""
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    with pytest.raises(HistoryError, match="not empty and no history"):
        Draft(tmp_path)
    assert (tmp_path / "runs" / "mine").exists()


@pytest.mark.parametrize("text", ['{"manifest_version": 3}', "garbage"])
def test_the_manifest_of_another_program_is_not_replaced(tmp_path: Path, text: str) -> None:
    """Browser extensions and build folders have a manifest.json, too: a mistyped --to destroyed it."""
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(HistoryError, match="not empty and no history"):
        Draft(tmp_path)
    assert (tmp_path / "manifest.json").read_text() == text


def test_files_that_were_never_written_stop_the_commit(tmp_path: Path) -> None:
    """A manifest that names a missing file would replace a good history by a broken one."""
    segment = dict.fromkeys(layout.SEGMENTS.names) | {
        "number": 0,
        "first_position": 0,
        "rows": 1,
        **{name: [0] for name in ("processes", "counts", "before", "first_seq")},
        "first_causal_time": 0,
        "last_causal_time": 0,
        "starts_computation": True,
        "events_file": "events-00000-1.parquet",
        "skeleton_file": "skeleton-00000-1.parquet",
    }
    with Draft(tmp_path) as draft, pytest.raises(HistoryError, match="never written"):
        draft.commit(description(), pa.Table.from_pylist([segment], layout.SEGMENTS), layout.PROCESSES.empty_table())
    with pytest.raises(NoHistory):
        History(tmp_path)


@pytest.mark.parametrize(
    ("manifest", "error", "says"),
    [
        (None, NoHistory, "has no manifest.json"),
        ("{", DamagedHistory, "is not JSON"),
        pytest.param("[" * 100_000, DamagedHistory, "is not JSON", id="deep"),
        ("[1]", DamagedHistory, "no format number"),
        ("{}", DamagedHistory, "no format number. Restore the file from a copy, or make the history again"),
        (json.dumps({"format": layout.FORMAT + 1}), UnsupportedFormat, "install a newer ledto"),
        (json.dumps({"format": 0}), UnsupportedFormat, "make the history again"),
        (json.dumps({"format": layout.FORMAT, "run": "r"}), DamagedHistory, "its end is not"),
    ],
)
def test_what_is_no_history_is_said_so(
    manifest: str | None, error: type[HistoryError], says: str, tmp_path: Path
) -> None:
    """A trace-back about a missing key would leave the user to guess."""
    if manifest is not None:
        (tmp_path / layout.MANIFEST).write_text(manifest)
    with pytest.raises(error, match=says):
        History(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda said: said.pop("unit"), "`unit`"),
        (lambda said: said["ledger"].pop("missing_causes"), r"`missing_causes` - at `\$.ledger`"),
        (lambda said: said.update(flavour=1), "`flavour`"),
        (lambda said: said.update(events="many"), r"`str` - at `\$.events`"),
    ],
)
def test_a_manifest_with_other_members_is_refused_by_name(
    change: Callable[[dict[str, Any]], Any], says: str, tmp_path: Path
) -> None:
    """A version that writes other things under the same number gave a KeyError in the middle of a question."""
    write(tmp_path, seed=1, events=5)
    place = tmp_path / layout.MANIFEST
    said = json.loads(place.read_text())
    del said["checksum"]
    change(said)
    data = json.dumps(said, indent=2).removesuffix("\n}")
    place.write_text(f'{data},\n  "checksum": "{crc32(data.encode()):08x}"\n}}\n')
    with pytest.raises(DamagedHistory, match=says) as refused:
        History(tmp_path)
    assert str(place) in str(refused.value)
    assert "make the history again" in str(refused.value)


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    """What `ledto observe` said of a run would differ from what `ledto check` says of it."""
    write(tmp_path, seed=1, events=5)
    store = Store(tmp_path)
    large = {"pairs": 1 << 70, "average_pct": 12.5}
    wall_clock = WallClockSummary(1, "no times", large, 0, 0, 0, between_clocks={"pairs": []})
    told = replace(read_manifest(store), stream=stream(version=9), wall_clock=wall_clock, lag_event="é\u2028")
    write_manifest(store, told)
    assert read_manifest(store) == told


@pytest.mark.parametrize("kind", ["segments", "events", "skeleton", "boundary"])
@pytest.mark.parametrize("damage", ["missing", "cut", "garbage"])
def test_damaged_files_are_named(kind: str, damage: str, tmp_path: Path) -> None:
    """The user learns which file to restore."""
    write(tmp_path, seed=1, events=40)
    (damaged,) = list(tmp_path.glob(f"runs/*/{kind}*"))[-1:]
    if damage == "missing":
        damaged.unlink()
    else:
        damaged.write_bytes(damaged.read_bytes()[:-20] if damage == "cut" else b"x" * 100)
    with pytest.raises(DamagedHistory, match=damaged.name):
        History(tmp_path).concurrent(30)


def test_a_damaged_history_can_be_made_again(tmp_path: Path) -> None:
    """The error says to run `ledto observe` again, so that must work."""
    write(tmp_path, seed=1, events=5)
    (tmp_path / layout.MANIFEST).write_text("{")
    write(tmp_path, seed=2, events=6)
    assert len(History(tmp_path)) == 6
    assert len(Store(tmp_path).names(layout.RUNS)) == 1


@pytest.mark.parametrize("old", [False, True])
def test_a_full_disk_leaves_the_old_history_or_nothing(
    old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever write finds the disk full: one sentence says where, and nothing is left that looks like a history."""
    folder = tmp_path / "h"
    if old:
        write(folder, seed=1, events=5)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != layout.LOCK}
    syncs = storage._sync
    for room in range(100):
        written = 0

        def full(path: str, room: int = room) -> None:
            nonlocal written
            written += 1
            if written > room:
                raise OSError(errno.ENOSPC, "No space left on device")
            syncs(path)

        monkeypatch.setattr(storage, "_sync", full)
        told: LedtoError | OSError | None = None
        try:
            write(folder, seed=2, events=40)
        except (NoSpace, OSError) as failure:
            told = failure
        if told is None:
            break
        # The steps that only make names last are no writes.
        assert isinstance(told, OSError) or str(told).startswith(f"no space left on {folder}: ")
        monkeypatch.setattr(storage, "_sync", syncs)
        if old:
            after = {
                path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != layout.LOCK
            }
            assert after == before
            assert len(History(folder)) == 5
        else:
            assert not folder.exists()
    assert room > 8
    assert len(History(folder)) == 40


def test_a_disk_without_room_for_the_lock_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first bytes of a run are those of its lock."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(NoSpace, match=f"no space left on {tmp_path}/h: "):
        Draft(tmp_path / "h")
    assert os.listdir(tmp_path) == []
