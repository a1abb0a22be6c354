"""Finding inputs, and reading what is compressed."""

from __future__ import annotations

import bz2
import gzip
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

import ledto
from ledto.events.schema import REPORTS
from ledto.sources import SourceError
from ledto.sources.files import find_files
from ledto.sources.inputs import find_inputs
from ledto.sources.native.lines import JsonLines
from ledto.sources.shiviz.source import ShiViz
from tests.sources.reading import SAMPLES

SUFFIXES = (".jsonl", ".parquet")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files, which is the current one."""
    for name in (
        "b.jsonl",
        "a.JSONL",
        "deep/c.jsonl.gz",
        "x.txt",
        "_skip.jsonl",
        ".hidden/d.jsonl",
        "_tmp/e.jsonl",
        "[1].jsonl",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(*inputs: str) -> list[str]:
    return [file.name for file in find_files(inputs, SUFFIXES)]


def test_files_folders_and_patterns_give_each_file_once(folder: Path) -> None:
    """A file that is read twice doubles every event, one that is missed is a hole."""
    assert names(".") == ["[1].jsonl", "a.JSONL", "b.jsonl", "deep/c.jsonl.gz"]
    assert names("b.jsonl", ".", str(folder / "b.jsonl")) == ["b.jsonl", "[1].jsonl", "a.JSONL", "deep/c.jsonl.gz"]
    assert names("*.jsonl") == ["[1].jsonl", "b.jsonl"]
    assert names("**/*.gz") == ["deep/c.jsonl.gz"]
    assert names("[ab].*") == ["a.JSONL", "b.jsonl"]
    assert names("[!a-b]*") == ["[1].jsonl", "deep/c.jsonl.gz", "x.txt"]
    assert names("d*") == names("dee*/") == names("deep") == ["deep/c.jsonl.gz"]
    assert [file.name for file in find_files(["[!a-b]*"], SUFFIXES, followed=True)] == ["[1].jsonl", "x.txt"]
    assert names("?.jsonl") == ["b.jsonl"]
    assert names("x.txt", "_skip.jsonl", "[1].jsonl") == ["x.txt", "_skip.jsonl", "[1].jsonl"]
    assert names(f"file://{folder}/deep") == ["deep/c.jsonl.gz"]
    assert names(str(SAMPLES / "shop.jsonl")) == [str(SAMPLES / "shop.jsonl")]


ROTATED = {
    "pods/shop_orders_1/orders/0.log": "orders",
    "pods/shop_orders_1/orders/0.log.20240501-105959.gz": "orders",
    "pods/shop_orders_1/orders/0.log.20240501-115959": "orders",
    "app.log": "app",
    "app.log-20240501": "app",
    "app.log.1": "app",
    "app.log.12.gz": "app",
    "app.log.2024-05-01": "app",
    "messages-20240501.gz": "messages",
    "syslog": "syslog",
    "syslog.1": "syslog",
}
"""Files that kubelet, logrotate and Python's handlers make, each with the process whose log it is."""


def test_rotated_files_of_a_folder_are_read_as_what_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hour before a failure is often in a file that was put aside. Its events are of the same process."""
    monkeypatch.chdir(tmp_path)
    others = ["app.conf", "app.log.old", "core.1", "syslogger", "v1.20240501.zip"]
    for number, name in enumerate([*ROTATED, *others]):
        path = tmp_path / "log" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        line = f'2024-05-01T12:00:{number:02}Z stdout F {{"ts": {number}, "msg": "m{number}"}}\n'.encode()
        path.write_bytes(gzip.compress(line) if name.endswith(".gz") else line)
    mapping = tmp_path / "mapping.toml"
    mapping.write_text('process = "@file"\ntime = { from = "ts", unit = "s" }\nname = "msg"\n')
    inputs = find_inputs(["log"], options={"mapping": str(mapping)})
    read = {
        file.name: {
            row["process"].rpartition("/")[2] for batch in source.read(file.piece()) for row in batch.to_pylist()
        }
        for file, source in inputs.text
    }
    assert read == {f"log/{name}": {process} for name, process in ROTATED.items()}
    assert {file.suffix for file in inputs.files} == {".log", ""}
    assert any(note.startswith("5 files not read, such as log/app.conf") for note in inputs.notes)
    assert not any("not read" in note for note in find_inputs(["log/a*.log*"], options={"mapping": str(mapping)}).notes)
    followed = find_files(["log"], (".log",), followed=True)
    assert [file.name for file in followed] == ["log/app.log", "log/pods/shop_orders_1/orders/0.log", "log/syslog"]


@pytest.mark.parametrize(
    "names",
    [
        [*(f"app.log.{age}" + ".gz" * (age > 1) for age in range(11, 0, -1)), "app.log"],
        [*(f"app.log.202405{day:02}-115959" for day in range(1, 12)), "app.log"],
    ],
)
def test_a_rotated_log_has_the_order_of_the_whole(names: list[str], tmp_path: Path) -> None:
    """Logs in seconds have many lines of one time: if parts changed places, effects would be told as causes."""
    lines = [f'{{"at": {number // 7}, "msg": "m{number}"}}\n' for number in range(5 * len(names))]
    (tmp_path / "mapping.toml").write_text('process = "@file"\ntime = { from = "at", unit = "s" }\nname = "msg"\n')
    (tmp_path / "parts").mkdir()
    for number, name in enumerate(names):
        text = "".join(lines[5 * number : 5 * number + 5]).encode()
        (tmp_path / "parts" / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    history = ledto.observe(
        tmp_path / "parts", to=tmp_path / "h", engine="inline", mapping=str(tmp_path / "mapping.toml")
    )
    events = history.find(first=len(lines)).events
    assert [(event.id, event.name) for event in events] == [
        (f"app:{number + 1}", f"m{number}") for number in range(len(lines))
    ]


def test_a_file_with_several_paths_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes links /var/log/containers to /var/log/pods: events that are read twice are told as twice as many."""
    monkeypatch.chdir(tmp_path)
    real = tmp_path / "pods/shop_orders_1/orders/0.log"
    real.parent.mkdir(parents=True)
    real.write_text('{"process": "p", "seq": 1}\n')
    (tmp_path / "containers").mkdir()
    (tmp_path / "containers/orders.log").symlink_to(real)
    (tmp_path / "all").symlink_to("pods")
    kept = ["pods/shop_orders_1/orders/0.log"]
    for given in (["."], ["containers", "pods"], ["all", "containers/*", "./pods"], [kept[0], "pods", kept[0]]):
        inputs = find_inputs(given)
        assert [file.name for file in inputs.files] == kept
        assert any("left out, such as" in note for note in inputs.notes) == (given[-1] != kept[0])
    assert [file.name for file in find_inputs(["containers"]).files] == ["containers/orders.log"]


@pytest.mark.parametrize(
    ("given_input", "complaint"),
    [
        ("nowhere.jsonl", "nowhere.jsonl does not exist"),
        ("deep/*.parquet", "no file matches deep/\\*.parquet"),
        ("_tmp/none", "does not exist"),
        ("", "empty text"),
        ("nosuch://bucket/x", "cannot be read"),
    ],
)
def test_an_input_that_gives_nothing_is_an_error(folder: Path, given_input: str, complaint: str) -> None:
    """A typing error must not end in an empty history."""
    with pytest.raises(SourceError, match=complaint):
        find_files(["b.jsonl", given_input], SUFFIXES)
    (folder / "empty").mkdir()
    with pytest.raises(SourceError, match=r"holds no file that ends in \.jsonl, \.parquet"):
        find_files(["empty"], SUFFIXES)
    with pytest.raises(SourceError, match="no input is given"):
        find_files([], SUFFIXES)


@pytest.mark.parametrize("source", [JsonLines(), JsonLines(compiled_from_bytes=0), ShiViz()], ids=str)
@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_compressed_files_are_the_same_text_and_torn_ones_say_so(
    source: JsonLines | ShiViz, suffix: str, tmp_path: Path
) -> None:
    """Rotated logs are compressed, and the last one of a machine that died ends early: what it holds must not be lost."""
    kind = "jsonl" if isinstance(source, JsonLines) else "log"
    text = (SAMPLES / f"shop.{kind}").read_bytes() * 50
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": lambda data: pa.compress(data, "zstd", asbytes=True)}[
        suffix
    ]

    def read(name: str, data: bytes) -> pa.Table:
        path = tmp_path / f"{name}.{kind}{suffix}"
        path.write_bytes(data)
        (file,) = find_files([str(path)], ())
        table = pa.Table.from_batches(source.read(file.piece()), schema=REPORTS)
        return table.drop_columns("file")

    plain_path = tmp_path / f"plain.{kind}"
    plain_path.write_bytes(text)
    (plain_file,) = find_files([str(plain_path)], ())
    plain = pa.Table.from_batches(source.read(plain_file.piece()), schema=REPORTS).drop_columns("file")
    assert read("whole", pack(text)).equals(plain)
    assert read("joined", pack(text[:100]) + pack(text[100:])).equals(plain)
    torn = read("torn", pack(text)[:-8])
    assert torn["reason"].to_pylist()[-1].startswith("torn-file: ")
    garbage = read("garbage", b"this is not compressed at all")
    assert [reason.partition(":")[0] for reason in garbage["reason"].to_pylist()] == ["torn-file"]


def test_a_torn_archive_gives_every_line_before_the_tear(tmp_path: Path) -> None:
    """A crash tears the newest log, which is the one that shows the failure: its last lines matter most."""
    lines = [f'{{"process": "p", "seq": {n}, "name": "{n * n * 7919 % 100_003}"}}\n' for n in range(1, 4_000)]
    packed = gzip.compress("".join(lines).encode())[:-9_000]
    held = zlib.decompressobj(wbits=31).decompress(packed).count(b"\n")
    assert held > 1_000
    (tmp_path / "torn.jsonl.gz").write_bytes(packed)
    (file,) = find_files([str(tmp_path)], SUFFIXES)
    rows = [row for batch in JsonLines().read(file.piece()) for row in batch.to_pylist()]
    assert [row["seq"] for row in rows if row["reason"] is None] == list(range(1, held + 1))
    assert rows[-1]["reason"].startswith("torn-file")
