"""Write frames of Server-Sent Events, and send them in a response that disconnects clients that do not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


def write_event(text: str, *, number: int, event: str | None = None) -> bytes:
    """Write an event; without a name, clients see a ``message``. `text` must have no line breaks."""
    event_line = "" if event is None else f"event: {event}\n"
    return f"id: {number}\n{event_line}data: {text}\n\n".encode()


def write_position(number: int) -> bytes:
    """Write a frame without an event, so that a client that connects again resumes after this number."""
    return f": keep-alive\nid: {number}\n\n".encode()


def write_opening(retry_ms: int) -> bytes:
    """Write the first frame, which says how long a client should wait before it connects again."""
    return f": connected\nretry: {retry_ms}\n\n".encode()


KEEP_ALIVE = b": keep-alive\n\n"


class EventStream(Response):
    """A response that sends frames until they end, the client disconnects, or it reads nothing for `stall_s`.

    The next frame is made only after the last one was sent, so a slow client uses no memory beyond the connection's buffer.
    """

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncIterator[bytes], *, stall_s: float) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._frames = frames
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        sending = asyncio.create_task(self._send_frames(send))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send_frames(self, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for frame in self._frames:
                async with asyncio.timeout(self._stall_s):
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            return
        finally:
            if hasattr(self._frames, "aclose"):
                await self._frames.aclose()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
