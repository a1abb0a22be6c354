"""``ledto serve`` as it is started by a user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

from ledto.cli.schema import make_schemas
from ledto.events.schema import REPORTS
from ledto.live import LiveHistory, LiveWriter
from tests.live.streams import kind_stream, terms
from tests.reporting.sink import free_port
from tests.service.collector_stage import Stage

COMMAND = [sys.executable, "-m", "ledto.cli", "serve", "--to"]


def test_it_says_where_it_listens_takes_reports_and_ends_when_told(tmp_path: Path) -> None:
    """A user could not start the service from a script, or would have to kill it and clean up after it."""
    history, grpc_port = tmp_path / "h", free_port()
    # As in a container: what is not on the command line is in the environment.
    given = {"LEDTO_HISTORY": str(history), "LEDTO_PORT": "0", "LEDTO_GRPC_PORT": str(grpc_port)}
    arguments = [*COMMAND[:-1], "--no-stream", "--json"]
    process = subprocess.Popen(
        arguments, env=os.environ | given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        Draft202012Validator(make_schemas()["serve"]).validate(ready)
        stage = Stage(history, type("Running", (), {"http": ready["http"]})(), process.kill)
        assert stage.post("/v1/reports", b'{"process":"p","seq":1}', "application/x-ndjson").status == 200
        assert ready["grpc"] == f"http://127.0.0.1:{grpc_port}"
        assert stage.get("/readyz").document == {"broker": "ready", "grpc": "ready"}
        paths = stage.get("/openapi.json").document["paths"]
        assert {"/v1/traces", "/v1/logs", "/v1/reports", "/v1/subscriptions", "/metrics"} <= {*paths}
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
        assert not Path(f"/proc/{ready['broker_pid']}").exists()
        assert "Traceback" not in process.communicate()[1]
    finally:
        process.kill()
        process.wait()


def test_it_ends_its_first_message_with_the_last_errors(tmp_path: Path) -> None:
    """Who restarts the service after a failure would not know what to ask about."""
    _, table = kind_stream(Random(3), events=30)
    errors = pa.array([at in (3, 7, 8, 20) for at in range(len(table))])
    table = table.set_column(table.column_names.index("error"), REPORTS.field("error"), errors)
    with LiveWriter(str(tmp_path / "h"), terms()) as writer:
        writer.step(table, now=table["arrival"][-1].as_py())
    expected = [event.id for event in LiveHistory(tmp_path / "h").current().order() if event.error][-3:]
    arguments = [*COMMAND, str(tmp_path / "h"), "--port", "0", "--no-grpc", "--no-stream"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("Health"):
            assert line, "it ended"
        said = [process.stdout.readline() for _ in expected]
        assert [line.strip() for line in said] == [
            f"ledto why {tmp_path / 'h'} {name}  # step, error" for name in expected
        ]
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--host", "0.0.0.0"], 1, "--open-to-all"),
        (["--tls-cert", "c.pem"], 1, "--tls-key"),
        (["--tokens", "nowhere"], 1, "cannot be read"),
        (["--max-body", "lots"], 2, "a size such as"),
        (["--broker", "http://x"], 2, "nats://HOST:PORT"),
        (["--eps", "soon"], 2, "such as 250ms"),
        (["--retention-age", "0s"], 2, "more than 0"),
        (["--webhook-host", "https://hooks.example.com"], 2, "HOST or HOST:PORT"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(
    tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    """A slip on the command line would open the service to a network, or be found out hours later."""
    from typer.testing import CliRunner

    from ledto.cli.main import cli

    found = CliRunner().invoke(cli, ["serve", "--to", str(tmp_path / "h"), *arguments])
    assert found.exit_code == status, found.output
    assert said in " ".join(found.output.split())
    assert not (tmp_path / "h").exists()
