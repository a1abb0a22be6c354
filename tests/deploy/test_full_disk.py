"""Disks that are full indeed: small ones of their own, filled up to a few pages."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import ledto
from tests.deploy.confinement import run_confined

FILL_AND_RUN = """
import json, os, shutil, sys
from typer.testing import CliRunner
from ledto.cli.main import cli

disk, words = sys.argv[1], json.loads(sys.argv[2])
before = sorted(os.listdir(disk))
filler = os.path.join(disk, "filler")

def fill(room):
    with open(filler, "wb", buffering=0) as file:
        free = shutil.disk_usage(disk).free
        file.write(bytes(max(0, free - room)))

tries = []
for pages in range(0, 4_000):
    fill(4096 * pages)
    done = CliRunner().invoke(cli, words)
    failure = "" if isinstance(done.exception, SystemExit | None) else repr(done.exception)
    os.unlink(filler)
    tries.append([done.exit_code, done.output, failure, sorted(os.listdir(disk))])
    if done.exit_code == 0:
        break
print(json.dumps({"before": before, "tries": tries}))
"""
"""Runs the command with no free page, then with one more each time, until it succeeds."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    lines = ({"process": f"p{number % 3}", "time": number, "name": f"step {number}"} for number in range(300))
    (folder / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    ledto.observe(folder / "log.jsonl", folder / "h")
    return folder / "h"


def try_with_more_and_more_room(words: list[str], disk: Path) -> dict[str, Any]:
    done = run_confined([sys.executable, "-c", FILL_AND_RUN, str(disk), json.dumps(words)], writable=[disk], size="8m")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "command",
    [
        "observe {log} --engine inline --to {disk}/new",
        "simulate {history} --policy exact --to {disk}/new",
        "export {history} --format csv --to {disk}/new",
        "export {history} --format parquet --to {disk}/new",
        "export {history} --format perfetto --to {disk}/new",
        "report {history} p0:90 --to {disk}/new",
    ],
)
def test_whichever_page_is_missing_the_place_is_named_and_nothing_is_left(
    command: str, history: Path, tmp_path: Path
) -> None:
    """Half of a file would be taken for all of it, or a trace-back would have to be read for the disk's name."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = command.format(log=history.parent / "log.jsonl", history=history, disk=disk).split()
    found = try_with_more_and_more_room(words, disk)
    *failed, succeeded = found["tries"]
    assert succeeded[0] == 0, succeeded
    assert succeeded[3] == ["new"]
    assert failed, "the disk was full at first"
    for status, said, failure, left in failed:
        assert (status, failure, left) == (1, "", found["before"])
        assert said == f"no space left on {disk}/new: make room there, or name a place with more of it, and try again\n"


GROW = """
import json, os, shutil, sys
from ledto.history.store import NoSpace
from ledto.live import LiveHistory, LiveWriter, blames_reports
from tests.live.streams import BASE, MS, terms
from tests.live.test_rescue import reports

disk = sys.argv[1]
filler = os.path.join(disk, "filler")
failed = 0
for pages in range(400):
    folder = os.path.join(disk, f"h{pages}")
    with LiveWriter(folder, terms(close_rows=4)) as writer:
        writer.step(reports("a", "b", "a"), now=BASE + 5 * MS, positions={"p": 3})
    with open(filler, "wb", buffering=0) as file:
        file.write(bytes(max(0, shutil.disk_usage(disk).free - 4096 * pages)))
    rows = reports("a", "b", "a", "b", "a", start=10)
    with LiveWriter(folder, terms(close_rows=4)) as writer:
        try:
            writer.step(rows, now=BASE + 20 * MS, positions={"p": 8})
            succeeded = True
        except NoSpace as fault:
            assert not blames_reports(fault)
            succeeded = False
            failed += 1
    os.unlink(filler)
    with LiveWriter(folder, terms(close_rows=4)) as writer:
        if not succeeded:
            assert writer.positions == {"p": 3}
            writer.step(rows, now=BASE + 20 * MS, positions={"p": 8})
        writer.step(reports(), now=BASE + 10_000 * MS, positions={"p": 9})
    history = LiveHistory(folder).current()
    assert (len(history), history.check().ledger["quarantined"]) == (8, 0)
    shutil.rmtree(folder)
    if succeeded:
        break
print(json.dumps([failed, succeeded]))
"""
"""Takes a micro-batch with no free page, then with one more each time, until that succeeds."""


def test_a_stream_that_finds_its_disk_full_blames_no_report(tmp_path: Path) -> None:
    """Good reports were quarantined for good as those that cannot be placed, because there was no room for their files."""
    disk = tmp_path / "disk"
    disk.mkdir()
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", GROW, str(disk)]
    done = run_confined(command, writable=[disk], environment=environment, size="8m")
    assert done.returncode == 0, done.stderr
    failed, succeeded = json.loads(done.stdout)
    assert succeeded
    assert failed > 3


def test_a_service_without_room_for_its_first_file_says_where(tmp_path: Path) -> None:
    """An operator would read that the broker cannot be started, and look for the fault in the broker."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
    dd if=/dev/zero of={disk}/filler bs=4k 2> /dev/null
    {sys.executable} -m ledto.cli serve --to {disk}/h --port 0 --no-stream
    """
    done = run_confined(["sh", "-c", script], writable=[disk], loopback=True, files=4096, size="8m")
    assert done.returncode == 1
    assert re.fullmatch(rf"no space left on {disk}/h\S*: make room there, .*\n", done.stderr)
