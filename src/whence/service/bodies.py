"""The bytes of a request's body, within limits."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import Final

from starlette.requests import ClientDisconnect, Request

from whence.service.limits import Held, Limits, Refused, too_large

SENDER_STOPPED: Final = ("slow", "gone")
"""Reasons of refusals after which nothing more is to be expected from the sender."""
_GIVEN_BYTES: Final = 4 << 10
_UNPACKED_BYTES: Final = 1 << 20
_GZIP: Final = 31


async def read_body(request: Request, limits: Limits, held: Held) -> bytes:
    """The body as it was sent, its bytes counted in `held`. Raises `Refused`, also for one that comes too slowly."""
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
        raise Refused(408, "slow", f"the body did not come within {limits.read_s:g} s") from None
    except ClientDisconnect:
        raise Refused(400, "gone", "the sender went away") from None
    return b"".join(parts)


async def discard_body(request: Request, limits: Limits) -> None:
    """Read and forget the rest of a refused request's body, up to the size that could have been taken.

    A sender that is still writing when the connection closes may never see the answer.
    """
    left_bytes = limits.body_bytes
    with suppress(TimeoutError, ClientDisconnect, RuntimeError):
        async with asyncio.timeout(limits.discard_s):
            async for part in request.stream():
                left_bytes -= len(part)
                if left_bytes < 0:
                    return


def content_encoding(request: Request) -> str | None:
    """How the body is compressed: gzip, or not at all. Raises `Refused` for another way."""
    named = request.headers.get("content-encoding", "").strip().lower()
    if named in ("", "identity"):
        return None
    if named in ("gzip", "x-gzip"):
        return "gzip"
    raise Refused(415, "encoding", "Content-Encoding is gzip, or not given")


def gunzip(packed: bytes, limits: Limits, held: Held) -> bytes:
    """What was compressed, its bytes counted in `held`; never more than the limits. Raises `Refused`.

    Takes a time proportional to the bytes on both sides: what a member leaves over is copied, so little is given at once.
    """
    parts: list[bytes] = []
    size_bytes = members = given = 0
    member = None
    waiting = b""
    while waiting or given < len(packed):
        held.check()
        if not waiting:
            waiting = packed[given : given + _GIVEN_BYTES]
            given += len(waiting)
        if member is None:
            members += 1
            if members > limits.gzip_members:
                raise too_large("gzip members of a body", limits.gzip_members)
            member = zlib.decompressobj(wbits=_GZIP)
        try:
            part = member.decompress(waiting, _UNPACKED_BYTES)
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
    """Raise `Refused` for more lines than there may be reports, or a longer one than a report may be; parses nothing."""
    lines = body.count(b"\n") + (not body.endswith(b"\n"))
    if lines > limits.reports:
        raise too_large("lines of a body", limits.reports)
    start = 0
    while len(body) - start > limits.report_bytes:
        # The last end of a line within reach: what lies before it is short enough.
        end = body.rfind(b"\n", start, start + limits.report_bytes + 1)
        if end < 0:
            raise too_large("bytes of one report", limits.report_bytes)
        start = end + 1


def _not_gzip() -> Refused:
    return Refused(400, "not-gzip", "the body is not what gzip writes, or is torn")
