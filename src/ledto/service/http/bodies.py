"""Read and decompress the bodies of requests, within limits."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import Final

from starlette.requests import ClientDisconnect, Request

from ledto.service.http.limits import HeldBytes, Limits, RequestRefused, too_large

SENDER_STOPPED: Final = ("slow", "gone")
"""Reasons of refusals after which the sender will send nothing more."""
_INPUT_BYTES: Final = 4 << 10
"""Compressed bytes that are passed to zlib at once."""
_OUTPUT_BYTES: Final = 1 << 20
"""The most bytes that zlib returns at once."""
_GZIP_WBITS: Final = 31
"""zlib's setting for gzip with the largest window."""


async def read_body(request: Request, limits: Limits, held: HeldBytes) -> bytes:
    """Read the body as it was sent; count its bytes in `held`. Raises `RequestRefused` if it is too large or too slow."""
    announced = request.headers.get("content-length")
    if announced is not None and announced.isdecimal() and int(announced) > limits.body_bytes:
        raise too_large("bytes of a body", limits.body_bytes)
    parts: list[bytes] = []
    size_bytes = 0
    try:
        async with asyncio.timeout(limits.read_s):
            async for part in request.stream():
                size_bytes += len(part)
                if size_bytes > limits.body_bytes:
                    raise too_large("bytes of a body", limits.body_bytes)
                held.grow(len(part))
                parts.append(part)
    except TimeoutError:
        raise RequestRefused(408, "slow", f"the body did not come within {limits.read_s:g} s") from None
    except ClientDisconnect:
        raise RequestRefused(400, "gone", "the sender went away") from None
    return b"".join(parts)


async def discard_body(request: Request, limits: Limits) -> None:
    """Read and drop the rest of a refused request's body, up to the largest size allowed and for a bounded time.

    Otherwise the connection would close while the sender still writes, and it might never see the answer.
    """
    left_bytes = limits.body_bytes
    with suppress(TimeoutError, ClientDisconnect, RuntimeError):
        async with asyncio.timeout(limits.discard_s):
            async for part in request.stream():
                left_bytes -= len(part)
                if left_bytes < 0:
                    return


def content_encoding(request: Request) -> str | None:
    """Return how the body is compressed: gzip, or None. Raises `RequestRefused` for any other encoding."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip"):
        return "gzip"
    raise RequestRefused(415, "encoding", "Content-Encoding is gzip, or not given")


def gunzip(packed: bytes, limits: Limits, held: HeldBytes) -> bytes:
    """Decompress a body of one or more gzip members; count the bytes in `held`. Raises `RequestRefused` beyond the limits.

    Takes time proportional to the bytes on both sides. zlib copies the input that follows a member, so it gets only a
    little input at once.
    """
    parts: list[bytes] = []
    size_bytes = members = consumed = 0
    member = None
    waiting = b""
    while waiting or consumed < len(packed):
        held.check()
        if not waiting:
            waiting = packed[consumed : consumed + _INPUT_BYTES]
            consumed += len(waiting)
        if member is None:
            members += 1
            if members > limits.gzip_members:
                raise too_large("gzip members of a body", limits.gzip_members)
            member = zlib.decompressobj(wbits=_GZIP_WBITS)
        try:
            part = member.decompress(waiting, _OUTPUT_BYTES)
        except zlib.error:
            raise _not_gzip() from None
        size_bytes += len(part)
        if size_bytes > limits.body_bytes:
            raise too_large("bytes of a body after decompression", limits.body_bytes)
        held.grow(len(part))
        parts.append(part)
        waiting = member.unused_data if member.eof else member.unconsumed_tail
        if member.eof:
            member = None
    if member is not None:
        raise _not_gzip()
    return b"".join(parts)


def check_lines(body: bytes, limits: Limits) -> None:
    """Raise `RequestRefused` if there are too many lines, or one is longer than a report may be. Parses nothing."""
    lines = body.count(b"\n") + (not body.endswith(b"\n"))
    if lines > limits.reports:
        raise too_large("lines of a body", limits.reports)
    start = 0
    while len(body) - start > limits.report_bytes:
        # Every line that ends before the last line end within `report_bytes` is short enough.
        end = body.rfind(b"\n", start, start + limits.report_bytes + 1)
        if end < 0:
            raise too_large("bytes of one report", limits.report_bytes)
        start = end + 1


def _not_gzip() -> RequestRefused:
    return RequestRefused(400, "not-gzip", "the body is not valid gzip, or it is cut off")
