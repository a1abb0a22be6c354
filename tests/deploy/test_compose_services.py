"""The two services of compose.yaml, started with the commands and the environment that it gives them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import ledto
from examples.otel_shop import files_of_exports
from ledto.questions import Standing, connect

ROOT = Path(__file__).parents[2]
NAMES = ("orders", "pay")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return found


def free_ports() -> Iterator[int]:
    while True:
        with closing(socket.create_server(("127.0.0.1", 0))) as probe:
            port: int = probe.getsockname()[1]
        yield port


def test_an_order_that_is_refused_leads_back_to_the_change(services: dict[str, Any], tmp_path: Path) -> None:
    """The example that the page shows would start nothing, or ledto would not find what it promises."""
    ports = dict(zip(NAMES, free_ports(), strict=False))
    with ExitStack() as ending:
        collector = ending.enter_context(files_of_exports(tmp_path / "exports"))
        for name in NAMES:
            service, listen, *upstream = services[name]["command"]
            assert listen == "0.0.0.0:8080"
            assert [f"127.0.0.1:{port}:8080" for port in (8080, 8081)][NAMES.index(name)] in services[name]["ports"]
            upstream = [address.replace("pay:8080", f"127.0.0.1:{ports['pay']}") for address in upstream]
            given = {**services[name]["environment"], "OTEL_EXPORTER_OTLP_ENDPOINT": collector}
            command = [sys.executable, ROOT / "examples" / "otel_shop.py", "--listen"]
            process = subprocess.Popen(
                [*command, service, f"127.0.0.1:{ports[name]}", *upstream], env=os.environ | given
            )
            ending.callback(process.wait)
            ending.callback(process.terminate)
        client = ending.enter_context(httpx.Client(transport=httpx.HTTPTransport(retries=100), timeout=60))
        orders, pay = (f"http://127.0.0.1:{ports[name]}" for name in NAMES)
        assert client.post(f"{orders}/orders/1", params={"amount": 120}).status_code == 200
        assert client.put(f"{pay}/limit", params={"value": 50}).status_code == 200
        assert client.post(f"{orders}/orders/2", params={"amount": 120}).status_code == 409
    history = ledto.observe([*(tmp_path / "exports").glob("*.otlp")], tmp_path / "h", format="otlp")
    query = "SELECT process, position FROM events WHERE name = ?"
    names = ("limit changed 500 -> 50", "payment refused")
    [(process, change)], [(_, refusal)] = (connect(tmp_path / "h").execute(query, [name]).fetchall() for name in names)
    assert process.partition("@")[0] == "pay"
    assert history.relation(change, refusal) is Standing.POSSIBLE
