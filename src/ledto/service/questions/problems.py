"""Answer failed questions with a status, a stable word and a sentence.

The sentence has no paths, no tracebacks, and no values that the caller sent.
"""

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

from ledto.history.errors import (
    AmbiguousEvent,
    BadCondition,
    EventNotFound,
    HistoryError,
    HistoryReplaced,
    NoHistory,
    UnknownPolicy,
)
from ledto.history.store import StorageError
from ledto.service.http.limits import RETRY_AFTER_S, RequestRefused, too_large
from ledto.service.http.problems import refusal_headers

MOST_BODY_BYTES: Final = 64 << 10
"""The most bytes of a request with a JSON body: a new subscription."""


class Problem(BaseModel):
    """Why a request was not answered."""

    reason: str = Field(description="A stable word for programs.", examples=["event-not-found"])
    message: str = Field(
        description="What is wrong and what to do next.",
        examples=["there is no event 42 of process 'shop': it has events 1 to 41"],
    )


PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    400: {
        "model": Problem,
        "description": "The condition, the time or another value cannot be used; the message says why.",
    },
    401: {"model": Problem, "description": "A token is needed."},
    403: {"model": Problem, "description": "The token is not a reader's."},
    404: {
        "model": Problem,
        "description": "There is no such event, computation or subscription; the message names similar ones.",
    },
    409: {"model": Problem, "description": "Several events have this name; the message says how to choose."},
    422: {"model": Problem, "description": "A parameter is missing or out of its bounds."},
    503: {
        "model": Problem,
        "description": "No history yet, too many questions at once, or one that takes too long: ask again.",
    },
}
"""For OpenAPI: the errors that every question may answer."""


def to_refusal(fault: Exception) -> RequestRefused | None:
    """Turn an exception of a history or of a question into a refusal; None for any other exception."""
    if isinstance(fault, RequestRefused):
        return fault
    if isinstance(fault, EventNotFound):
        return RequestRefused(404, "event-not-found", str(fault))
    if isinstance(fault, AmbiguousEvent):
        return RequestRefused(409, "ambiguous-event", str(fault))
    if isinstance(fault, BadCondition):
        return RequestRefused(400, "bad-condition", str(fault))
    if isinstance(fault, UnknownPolicy):
        return RequestRefused(404, "unknown-policy", str(fault))
    if isinstance(fault, NoHistory):
        return RequestRefused(
            503, "no-history", "nothing has been delivered yet: ask again", retry_after_s=RETRY_AFTER_S
        )
    if isinstance(fault, HistoryReplaced):
        return RequestRefused(503, "replaced", "the history is being replaced: ask again", retry_after_s=RETRY_AFTER_S)
    if isinstance(fault, (HistoryError, StorageError)):
        # The messages of these name files.
        return RequestRefused(
            503, "unreadable", "the history cannot be read: see the log of the service", retry_after_s=60
        )
    if isinstance(fault, HTTPException):
        return RequestRefused(fault.status_code, "refused", str(fault.detail))
    if isinstance(fault, RequestValidationError):
        return RequestRefused(422, "bad-request", _describe(fault))
    return None


def _describe(fault: RequestValidationError) -> str:
    """Describe the first errors without the values, which may be secrets."""
    errors = [f"{' '.join(str(part) for part in error['loc'])}: {error['msg']}" for error in fault.errors()[:5]]
    return "; ".join(errors).encode("utf-8", "replace").decode()


def make_response(refusal: RequestRefused) -> Response:
    """Make the HTTP response of a refusal."""
    content = {"reason": refusal.reason, "message": refusal.message.encode("utf-8", "replace").decode()}
    return JSONResponse(content, refusal.status, refusal_headers(refusal))


class AskingRoute(APIRoute):
    """A route that bounds request bodies and answers exceptions as `Problem`, in any application."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_bounded(request: Request) -> Response:
            try:
                return await handle(Request(request.scope, _bound_body(request.receive)))
            except Exception as fault:
                refusal = to_refusal(fault)
                if refusal is None:
                    raise
                return make_response(refusal)

        return handle_bounded


def _bound_body(receive: Receive) -> Receive:
    left_bytes = MOST_BODY_BYTES

    async def receive_bounded() -> Message:
        nonlocal left_bytes
        message = await receive()
        left_bytes -= len(message.get("body", b""))
        if left_bytes < 0:
            refusal = too_large("bytes of a body", MOST_BODY_BYTES)
            raise HTTPException(refusal.status, refusal.message)
        return message

    return receive_bounded
