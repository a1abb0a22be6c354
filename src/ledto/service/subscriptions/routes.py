"""Serve subscriptions over HTTP: a subscriber gets each delivered event that meets a condition, with what led to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Response

from ledto.service.http.limits import RequestRefused
from ledto.service.http.sse import EventStream
from ledto.service.http.tokens import ANONYMOUS
from ledto.service.questions.problems import PROBLEMS, AskingRoute, Problem
from ledto.service.questions.responses import json_answer
from ledto.service.questions.routes import AccessChecks, OpenAccess
from ledto.service.subscriptions.documents import (
    LARGEST,
    AnswerDocument,
    CreatedDocument,
    NewSubscription,
    SubscriptionDocument,
    SuspendedDocument,
    TrimmedDocument,
    UnplacedDocument,
)
from ledto.service.subscriptions.service import Subscriptions

IdParameter = Annotated[str, Path(max_length=64, description="The id of a subscription.", alias="id")]
EVENTS_EXAMPLE: Final = (
    "retry: 2000\n\n"
    'id: 42\ndata: {"type": "answer", "number": 42, "event": {...}, "causes": [...], "complete": true, ...}\n\n'
    'id: 99\nevent: trimmed\ndata: {"type": "trimmed", "after": 42, "first": 100, "removed": 57, ...}\n\n'
)


def subscriptions_router(subscriptions: Subscriptions, access: AccessChecks | None = None) -> APIRouter:
    """Make the routes that create, show and delete subscriptions, and stream their events.

    The router's lifespan starts and stops `subscriptions`.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await subscriptions.start()
        try:
            yield
        finally:
            await subscriptions.stop()

    reader = Depends((access or OpenAccess()).reader)
    router = APIRouter(
        prefix="/v1/subscriptions",
        tags=["subscriptions"],
        route_class=AskingRoute,
        dependencies=[reader],
        responses=PROBLEMS,
        lifespan=lifespan,
    )

    @router.post(
        "",
        status_code=201,
        summary="Subscribe",
        responses={
            201: {"model": CreatedDocument, "description": "The subscription is stored and survives restarts."},
            413: {"model": Problem, "description": "The body is too large."},
        },
    )
    async def subscribe(new: NewSubscription, caller: Any = reader) -> Response:
        """Subscribe to every delivered event that meets a condition, with the last k events that led to it.

        Read the events as a stream, or have them sent to a webhook, or both.
        """
        return json_answer(await subscriptions.add(new, owner_of(caller)), status=201)

    @router.get("", summary="All subscriptions", responses={200: {"model": list[SubscriptionDocument]}})
    async def list_all() -> Response:
        """List all subscriptions, oldest first, without their secrets."""
        return json_answer(await subscriptions.documents())

    @router.get("/{id}", summary="One subscription", responses={200: {"model": SubscriptionDocument}})
    async def show(name: IdParameter) -> Response:
        """Show a subscription, and the state of its webhook."""
        return json_answer(await subscriptions.document(subscriptions.find(name)))

    @router.delete("/{id}", status_code=204, response_class=Response, summary="Unsubscribe")
    async def unsubscribe(name: IdParameter) -> Response:
        """Delete a subscription. Its webhook stops, and its streams end."""
        await subscriptions.remove(name)
        return Response(status_code=204)

    @router.post("/{id}/resume", summary="Resume", responses={200: {"model": SubscriptionDocument}})
    async def resume(name: IdParameter) -> Response:
        """Resume a suspended subscription, or one with a failing webhook, at once and from where it stopped."""
        return json_answer(await subscriptions.resume(name))

    @router.get(
        "/{id}/events",
        summary="Its events, as a stream",
        response_class=Response,
        responses={200: _describe_stream()},
    )
    async def events(
        name: IdParameter,
        caller: Any = reader,
        last_event_id: Annotated[
            str | None,
            Header(description="The number of the last delivery that was read; the stream continues after it."),
        ] = None,
        after: Annotated[
            int | None, Query(ge=0, le=LARGEST, description="The same, for clients that cannot set the header.")
        ] = None,
    ) -> Response:
        """Stream Server-Sent Events. The id of an event is the number of its delivery; the data is an AnswerDocument.

        A client that connects again with the last id that it read gets exactly the events after it. An event named
        `trimmed` says that deliveries were removed from the log before the client read them. One named `unplaced` is
        about an event that the history does not have. One named `suspended` says that the stream ends, and why.
        """
        subscription = subscriptions.find(name)
        resume_after = after if last_event_id is None else _parse_number(last_event_id)
        frames = await subscriptions.stream(subscription, resume_after, owner_of(caller))
        return EventStream(frames, stall_s=subscriptions.limits.stall_s)

    return router


def owner_of(caller: Any) -> str:
    """Return the name under which a caller's subscriptions and streams are counted; empty without tokens."""
    return "" if caller in (None, ANONYMOUS) else str(caller)


def _parse_number(text: str) -> int:
    # A browser that has not got an id yet sends an empty one.
    if text == "":
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(LARGEST))):
        raise RequestRefused(400, "bad-request", "Last-Event-ID is the number of a delivery")
    return int(text)


def _describe_stream() -> dict[str, Any]:
    schema = {"type": "string", "description": "Frames of Server-Sent Events."}
    return {
        "model": AnswerDocument | UnplacedDocument | TrimmedDocument | SuspendedDocument,
        "description": "The stream; the data of each event is described under application/json.",
        "content": {"text/event-stream": {"schema": schema, "example": EVENTS_EXAMPLE}},
    }
