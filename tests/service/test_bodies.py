"""Bodies that ask for more time or memory than they are long, counted before it is spent."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.service.collector.parse import Parser
from ledto.service.http import bodies
from ledto.service.http.app import HttpSettings
from ledto.service.http.bodies import check_lines, gunzip
from ledto.service.http.limits import HeldBytes, InFlight, Limits, RequestRefused
from tests.service.collector_stage import served

LINES = "application/x-ndjson"


def unpacked(packed: bytes, limits: Limits | None = None) -> bytes:
    limits = limits or Limits()
    return gunzip(packed, limits, HeldBytes(InFlight(limits)))


@given(st.lists(st.binary(max_size=9_000), min_size=1, max_size=6))
def test_members_one_after_the_other_are_one_body(parts: list[bytes]) -> None:
    """A sender that appends compressed batches would lose all but the first, or be refused."""
    packed = b"".join(gzip.compress(part) for part in parts)
    assert unpacked(packed) == b"".join(parts)
    for torn in (packed[:-1], packed[:-8], packed + b"x"):
        with pytest.raises(RequestRefused) as refused:
            unpacked(torn)
        assert refused.value.reason == "not-gzip"


def test_many_tiny_members_cost_no_more_than_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two such bodies would keep every other sender, and the end of the service, waiting for minutes."""
    given_bytes = 0
    whole = zlib.decompressobj

    class Counting:
        def __init__(self, **options: Any) -> None:
            self._real = whole(**options)

        def decompress(self, data: bytes, most: int) -> bytes:
            nonlocal given_bytes
            given_bytes += len(data)
            return self._real.decompress(data, most)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    monkeypatch.setattr(bodies.zlib, "decompressobj", Counting)
    members = 20_000
    packed = gzip.compress(b"") * members
    assert unpacked(packed, Limits(gzip_members=members)) == b""
    assert given_bytes <= members * 4_096
    with pytest.raises(RequestRefused) as refused:
        unpacked(packed)
    assert (refused.value.status, refused.value.reason) == (413, "too-large")


def test_work_that_nobody_waits_for_stops() -> None:
    """The service would not end before the largest body that was sent to it is unpacked."""
    limits = Limits()
    in_flight = InFlight(limits)
    packed = gzip.compress(bytes(1 << 20))
    with in_flight.request() as held:
        assert gunzip(packed, limits, held)
    with pytest.raises(RequestRefused, match="send this again"):
        gunzip(packed, limits, held)
    in_flight.ending = True
    with in_flight.request() as held, pytest.raises(RequestRefused, match="send this again"):
        gunzip(packed, limits, held)


def test_lines_are_counted_before_they_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen kilobytes would take seventeen seconds and more than a gigabyte."""
    limits = Limits(reports=50, report_bytes=1_000)
    parsed: list[bytes] = []
    whole = Parser.parse
    monkeypatch.setattr(Parser, "parse", lambda self, body, *more: parsed.append(body) or whole(self, body, *more))
    with served(tmp_path / "h", settings=HttpSettings(port=0, expects_stream=False, limits=limits)) as stage:
        line = b'{"process":"p","seq":1}'
        long = b'{"process":"p","seq":1,"text":"' + b"x" * 1_000 + b'"}'
        for body in (b"{}\n" * 51, b"{}\n" * 50 + b"{}", b"\n" * 51, long, line + b"\n" + long + b"\n" + line):
            answer = stage.post("/v1/reports", gzip.compress(body), LINES, Content_Encoding="gzip")
            assert (answer.status, answer.document["reason"]) == (413, "too-large")
        assert parsed == []
        taken = b"\n".join([line] * 50) + b"\n"
        assert stage.post("/v1/reports", taken, LINES).status == 200
        assert parsed == [taken]


@given(st.lists(st.integers(0, 30), max_size=40), st.booleans())
def test_the_longest_line_decides(lengths: list[int], ended: bool) -> None:
    """A long report would slip through, or a short one be refused because of its neighbours."""
    body = b"\n".join(b"x" * length for length in lengths) + (b"\n" if ended else b"")
    refused = False
    try:
        check_lines(body, Limits(report_bytes=20))
    except RequestRefused:
        refused = True
    assert refused == any(length > 20 for length in lengths)
