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
        async with asyncio.timeout(limits.read_s):
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
    """What was compressed, its bytes counted in `held`; never more than the limit. Raises `Refused`."""
    parts: list[bytes] = []
    size_bytes = 0
    while packed:
        member = zlib.decompressobj(wbits=_GZIP)
        while packed and not member.eof:
            try:
                part = member.decompress(packed, _UNPACKED_BYTES)
            except zlib.error:
                raise _not_gzip() from None
            packed = member.unconsumed_tail
            size_bytes += len(part)
            if size_bytes > limits.body_bytes:
                raise too_large("bytes of a body after decompression", limits.body_bytes)
            held.grow(len(part))
            parts.append(part)
        if not member.eof:
            raise _not_gzip()
        packed = member.unused_data
    return b"".join(parts)


def _not_gzip() -> Refused:
    return Refused(400, "not-gzip", "the body is not what gzip writes, or is torn")
