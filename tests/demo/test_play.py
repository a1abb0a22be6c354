"""What ``make demo`` shows must be true, and must be all there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from whence.demo.shop import write_shop

SECONDS = 20


# It starts a Spark of its own: not beside the one that other tests share.
@pytest.mark.xdist_group("spark")
def test_the_demo_finds_the_true_cause(tmp_path: Path) -> None:
    """The first thing a new user runs: it must end well, name the true cause, and clear the suspect."""
    command = [sys.executable, "-m", "whence.demo", "--to", tmp_path / "demo", "--seconds", str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    truth = write_shop(tmp_path / "again", seconds=SECONDS)
    said = done.stdout
    assert f"before: {truth.cause} configuration loaded: hold_seconds 900 -> 0 happened before {truth.failure}" in said
    assert f"concurrent: neither of {truth.herring}" in said
    assert said.count("  ✓ ") == 7
    assert "✗" not in said
    assert "\x1b" not in said
    page = (tmp_path / "demo" / "report.html").read_text()
    for name in (*truth.chain, truth.herring):
        assert name in page
