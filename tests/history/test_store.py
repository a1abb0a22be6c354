from __future__ import annotations

import os
import pickle
from pathlib import Path
from random import Random

import pytest

from ledto.history import layout
from ledto.history.errors import HistoryInUse
from ledto.history.lock import Lock
from ledto.history.store import StorageError, Store
from ledto.questions import History
from tests.history.building import draw, write_history


def test_a_root_is_a_path_of_any_spelling_or_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history must be found again under the path that it was written to, however that is spelled."""
    folder = tmp_path / "with spaces é"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    spellings = [str(folder), "with spaces é", "~/with spaces é", f"file://{folder}", f"file://{folder}/", folder]
    for number, spelling in enumerate(spellings):
        store = Store(spelling)
        store.write(f"inner/{number}.txt", b"text")
        assert (folder / "inner" / f"{number}.txt").read_bytes() == b"text"
        assert pickle.loads(pickle.dumps(store)).names("inner") == [f"{each}.txt" for each in range(number + 1)]


@pytest.mark.parametrize("root", ["", "nothing://there/is"])
def test_what_cannot_be_a_root_is_refused(root: str) -> None:
    """The user learns what is wrong with the path, not that some file is missing."""
    with pytest.raises(StorageError):
        Store(root)


def test_a_file_that_fails_in_the_middle_is_not_there(tmp_path: Path) -> None:
    """A reader must not take half a file for a whole one, and the old one must stay."""
    store = Store(tmp_path)
    store.write("file", b"old")

    def fail() -> None:
        with store.writing("file") as stream:
            stream.write(b"new, and not finished")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.read("file") == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_history_lives_on_file_systems_that_are_not_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the store may assume paths of this machine: a history on an object store must be written and read."""
    monkeypatch.setattr(Store, "is_local", property(lambda self: False))
    monkeypatch.setattr(Store, "read", lambda self, name: self._files.open_input_file(self._path(name)).read())
    monkeypatch.setattr("ledto.history.store.PUTS_WHOLE", frozenset({"local"}))
    (tmp_path / "h").mkdir()
    for seed in (1, 2):
        events = write_history(tmp_path / "h", [(draw(Random(seed), "", 3, 30, ids=True), [10])], [])
        history = History(tmp_path / "h")
        assert [event.id for event in history.order()] == [event.id for event in events]
        past = [event.position for event in events if event.happened_before(events[-1])]
        answer = history.why(str(events[-1].id), k=30)
        assert [event.position for event in answer.causes] == past
        assert not (tmp_path / "h" / "run.lock").exists()


def test_object_stores_are_locked_by_a_file_that_tells_who(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, a dead run's lock must not need a person, and a live one's must hold."""
    monkeypatch.setattr(Store, "is_local", property(lambda self: False))
    monkeypatch.setattr(Store, "place", lambda self, name: f"s3://bucket/{name}")
    store = Store(tmp_path)
    first = Lock(store, "one")
    with pytest.raises(HistoryInUse, match=r"run one .* delete s3://bucket/run.lock"):
        Lock(store, "two")
    first.release()
    held = Lock(store, "three")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    store.write("run.lock", store.read("run.lock").replace(str(os.getpid()).encode(), str(child).encode()))
    Lock(store, "four").release()
    held.release()


def test_a_manifest_is_named_when_all_that_it_names_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a loss of power there would be a new manifest of empty files, and the old history would be gone."""
    synced: set[int] = set()
    in_place: list[Path] = []
    replace = os.replace

    def sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)

    def rename(old: str, new: str) -> None:
        assert os.stat(old).st_ino in synced, f"{new} has its name before its contents are on disk"
        if Path(new).name == layout.MANIFEST:
            assert in_place
            for path in in_place:
                assert path.parent.stat().st_ino in synced, f"the name of {path} is not on disk"
        replace(old, new)
        in_place.append(Path(new))
        synced.discard(in_place[-1].parent.stat().st_ino)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", rename)
    write_history(tmp_path, [(draw(Random(1), "", 3, 20), [8])], [])
    assert in_place[-1] == tmp_path / layout.MANIFEST
    assert tmp_path.stat().st_ino in synced, "the name of the manifest is not on disk"
