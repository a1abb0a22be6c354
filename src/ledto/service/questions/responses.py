"""Encode answers as JSON, and send long ones in pieces."""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import Response
from starlette.types import Receive, Scope, Send

from ledto.service.questions.pool import Asker

SENT_AT_ONCE: Final = 64 << 10


class LongAnswer(Response):
    """An answer that is sent in pieces, as fast as the client reads. `Asker.held_bytes` counts it until it is sent."""

    def __init__(self, asker: Asker, text: str, headers: dict[str, str], media_type: str = "application/json") -> None:
        super().__init__(text, headers=headers, media_type=media_type)
        self._asker = asker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. The server disconnects a client that does not read."""
        whole = memoryview(self.body)
        self._asker.held_bytes += len(whole)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for start in range(0, max(len(whole), 1), SENT_AT_ONCE):
                piece = bytes(whole[start : start + SENT_AT_ONCE])
                await send(
                    {"type": "http.response.body", "body": piece, "more_body": start + SENT_AT_ONCE < len(whole)}
                )
        finally:
            self._asker.held_bytes -= len(whole)


def json_text(document: Any) -> str:
    """Encode a document as the command line does, without white space."""
    # An attribute may have half of a surrogate pair, which only an escape can express.
    return json.dumps(document, ensure_ascii=True, separators=(",", ":"))


def json_answer(document: Any, *, status: int = 200) -> Response:
    """Make a response of a small document."""
    return Response(json_text(document), status, media_type="application/json")
