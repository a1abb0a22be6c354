"""Server-Sent Events: frames as the standard spells them, and a response that lets go of clients that do not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


def frame(text: str, *, number: int, event: str | None = None) -> bytes:
    """An event; without a name it is a ``message``. `text` is JSON with escapes, which has no line breaks."""
    named = "" if event is None else f"event: {event}\n"
    return f"id: {number}\n{named}data: {text}\n\n".encode()


def position_frame(number: int) -> bytes:
    """No event, only where to resume: nothing up to this number is missing."""
    return f": keep-alive\nid: {number}\n\n".encode()


def opening_frame(retry_ms: int) -> bytes:
    """How long a client waits before it connects again."""
    return f": connected\nretry: {retry_ms}\n\n".encode()


KEEP_ALIVE = b": keep-alive\n\n"


class EventStream(Response):
    """Sends frames until they end, the client goes, or the client takes nothing for `stall_s`.

    Frames are made one by one as the client takes them: a slow client holds what the connection buffers and no more.
    """

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncIterator[bytes], *, stall_s: float) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._frames = frames
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        pumping = asyncio.create_task(self._pump(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((pumping, leaving), return_when=asyncio.FIRST_COMPLETED)
            if pumping.done():
                pumping.result()
        finally:
            for task in (pumping, leaving):
                task.cancel()
            await asyncio.gather(pumping, leaving, return_exceptions=True)

    async def _pump(self, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for each in self._frames:
                async with asyncio.timeout(self._stall_s):
                    await send({"type": "http.response.body", "body": each, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            return
        finally:
            if hasattr(self._frames, "aclose"):
                await self._frames.aclose()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
