"""What ``make demo`` shows must be true, and must be all there."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from ledto.demo import play
from ledto.demo.shop import write_shop
from ledto.demo.stage import Stage
from tests.docs.run_page import write_inline_command

SECONDS = 20


# It starts a Spark of its own: not beside the one that other tests share.
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_the_demo_finds_the_true_cause(tmp_path: Path) -> None:
    """The first thing a new user runs: it must end well, name the true cause, and clear the suspect."""
    command = [sys.executable, "-m", "ledto.demo", "--to", tmp_path / "demo", "--seconds", str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    check_what_is_said(done.stdout, tmp_path)


def test_what_the_demo_says_is_true_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same acts and commands in a moment: only the engine of ``ledto observe`` is another one."""
    write_inline_command(tmp_path / "ledto")
    monkeypatch.setattr(play, "ledto_command", lambda: [str(tmp_path / "ledto")])
    said = io.StringIO()
    play.play(Stage(said), to=tmp_path / "demo", seconds=SECONDS, seed=7)
    check_what_is_said(said.getvalue(), tmp_path)


def check_what_is_said(said: str, folder: Path) -> None:
    truth = write_shop(folder / "again", seconds=SECONDS)
    assert f"before: {truth.cause} configuration loaded: hold_seconds 900 -> 0 led to {truth.failure}" in said
    assert f"concurrent: neither of {truth.herring}" in said
    assert said.count("  ✓ ") == 9
    assert f"✓ {truth.bystander} cache of prices dropped only shares a process with it" in " ".join(said.split())
    assert f" {truth.causes} are recorded as its causes (" in said
    assert "✗" not in said
    assert "\x1b" not in said
    page = (folder / "demo" / "report.html").read_text()
    # The suspect is not there: the page shows what is no cause, and with lost reports nobody knows that it is none.
    for name in truth.chain:
        assert name in page
