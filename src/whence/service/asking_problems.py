"""How a question over HTTP goes wrong: a status, a stable word and a sentence, without a path, a trace-back or an echo."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from whence.history.errors import (
    AmbiguousEvent,
    BadCondition,
    EventNotFound,
    HistoryError,
    HistoryReplaced,
    NoHistory,
    UnknownPolicy,
)
from whence.history.storage import StorageError
from whence.service.failures import refusal_headers
from whence.service.limits import RETRY_AFTER_S, Refused, too_large

MOST_BODY_BYTES: Final = 64 << 10
"""Of a request that this package reads as JSON: a subscription."""


class Problem(BaseModel):
    """Why a request was not answered."""

    reason: str = Field(description="A stable word for programs.", examples=["event-not-found"])
    message: str = Field(
        description="What is wrong and what to do next.",
        examples=["process 'shop' has events 1 to 41, and 42 is none of them"],
    )


PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    400: {
        "model": Problem,
        "description": "The condition, the time or another value cannot be used; the message says why.",
    },
    401: {"model": Problem, "description": "A token is asked for."},
    403: {"model": Problem, "description": "The token is not one of a reader."},
    404: {
        "model": Problem,
        "description": "There is no such event, computation or subscription; the message names what is near.",
    },
    409: {"model": Problem, "description": "Several events go by this name; the message says how to choose."},
    422: {"model": Problem, "description": "A parameter is missing or out of its bounds."},
    503: {
        "model": Problem,
        "description": "No history yet, too many questions at once, or one that takes too long: ask again.",
    },
}
"""For OpenAPI: what every question may answer instead."""


def refusal(fault: Exception) -> Refused | None:
    """What to answer for a fault in a history or in a question; None where it is neither."""
    if isinstance(fault, Refused):
        return fault
    if isinstance(fault, EventNotFound):
        return Refused(404, "event-not-found", str(fault))
    if isinstance(fault, AmbiguousEvent):
        return Refused(409, "ambiguous-event", str(fault))
    if isinstance(fault, BadCondition):
        return Refused(400, "bad-condition", str(fault))
    if isinstance(fault, UnknownPolicy):
        return Refused(404, "unknown-policy", str(fault))
    if isinstance(fault, NoHistory):
        return Refused(503, "no-history", "nothing has been delivered yet: ask again", retry_after_s=RETRY_AFTER_S)
    if isinstance(fault, HistoryReplaced):
        return Refused(503, "replaced", "the history is being replaced: ask again", retry_after_s=RETRY_AFTER_S)
    if isinstance(fault, (HistoryError, StorageError)):
        # The messages of these name files.
        return Refused(503, "unreadable", "the history cannot be read: see the log of the service", retry_after_s=60)
    if isinstance(fault, HTTPException):
        return Refused(fault.status_code, "refused", str(fault.detail))
    if isinstance(fault, RequestValidationError):
        return Refused(422, "bad-request", _told(fault))
    return None


def _told(fault: RequestValidationError) -> str:
    """The first faults, without the values: they may hold anything, and may be secrets."""
    told = [f"{' '.join(str(part) for part in each['loc'])}: {each['msg']}" for each in fault.errors()[:5]]
    return "; ".join(told).encode("utf-8", "replace").decode()


def rendered(refused: Refused) -> Response:
    """The answer that says so."""
    content = {"reason": refused.reason, "message": refused.message.encode("utf-8", "replace").decode()}
    return JSONResponse(content, refused.status, refusal_headers(refused))


class AskingRoute(APIRoute):
    """A route whose bodies are bounded and whose faults are answered as `Problem`, whatever application it is part of."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            try:
                return await handle(Request(request.scope, _bounded(request.receive)))
            except Exception as fault:
                refused = refusal(fault)
                if refused is None:
                    raise
                return rendered(refused)

        return bounded


def _bounded(receive: Receive) -> Receive:
    left = MOST_BODY_BYTES

    async def received() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            refused = too_large("bytes of a body", MOST_BODY_BYTES)
            raise HTTPException(refused.status, refused.message)
        return message

    return received
