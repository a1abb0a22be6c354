"""Subscriptions over HTTP: be told of events that meet a condition, each with what led to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Response

from whence.service.access import ANONYMOUS
from whence.service.asking import Access, OpenAccess, json_answer
from whence.service.asking_problems import PROBLEMS, AskingRoute, Problem
from whence.service.limits import Refused
from whence.service.sse import EventStream
from whence.service.subscribing_documents import (
    LARGEST,
    AnswerDocument,
    CreatedDocument,
    NewSubscription,
    SubscriptionDocument,
    SuspendedDocument,
    TrimmedDocument,
    UnplacedDocument,
)
from whence.service.subscribing_service import Subscriptions

IdParameter = Annotated[str, Path(max_length=64, description="The id of a subscription.", alias="id")]
EVENTS_EXAMPLE: Final = (
    "retry: 2000\n\n"
    'id: 42\ndata: {"type": "answer", "number": 42, "event": {...}, "causes": [...], "complete": true, ...}\n\n'
    'id: 99\nevent: trimmed\ndata: {"type": "trimmed", "after": 42, "first": 100, "removed": 57, ...}\n\n'
)


def subscriptions_router(subscriptions: Subscriptions, access: Access | None = None) -> APIRouter:
    """Make, see and delete subscriptions, and read their events. Its lifespan starts and stops them."""

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
            201: {"model": CreatedDocument, "description": "The subscription is kept and survives restarts."},
            413: {"model": Problem, "description": "The body is too large."},
        },
    )
    async def subscribe(new: NewSubscription, caller: Any = reader) -> Response:
        """Be told of every delivered event that meets a condition, with the last k events that led to it.

        Read its events as a stream, or have them sent to a webhook, or both.
        """
        return json_answer(await subscriptions.add(new, owner_of(caller)), status=201)

    @router.get("", summary="All subscriptions", responses={200: {"model": list[SubscriptionDocument]}})
    async def every() -> Response:
        """Oldest first, without their secrets."""
        return json_answer(await subscriptions.documents())

    @router.get("/{id}", summary="One subscription", responses={200: {"model": SubscriptionDocument}})
    async def one(name: IdParameter) -> Response:
        """And how its webhook is doing."""
        return json_answer(await subscriptions.document(subscriptions.find(name)))

    @router.delete("/{id}", status_code=204, response_class=Response, summary="Unsubscribe")
    async def unsubscribe(name: IdParameter) -> Response:
        """Its webhook stops, and its streams end."""
        await subscriptions.remove(name)
        return Response(status_code=204)

    @router.post("/{id}/resume", summary="Go on with it", responses={200: {"model": SubscriptionDocument}})
    async def resume(name: IdParameter) -> Response:
        """At once, from where it stopped; for one that was suspended, or whose webhook failed for too long."""
        return json_answer(await subscriptions.resume(name))

    @router.get(
        "/{id}/events",
        summary="Its events, as they come",
        response_class=Response,
        responses={200: _events()},
    )
    async def events(
        name: IdParameter,
        caller: Any = reader,
        last_event_id: Annotated[
            str | None,
            Header(description="The number of the last delivery that was read; the stream goes on after it."),
        ] = None,
        after: Annotated[
            int | None, Query(ge=0, le=LARGEST, description="The same, where no header can be set.")
        ] = None,
    ) -> Response:
        """Server-Sent Events. The id of an event is the number of its delivery; the data is an AnswerDocument.

        A client that connects again with the last id that it read gets exactly what comes after it. An event named
        `trimmed` says that deliveries were removed from the log before the client came for them, one named `unplaced`
        tells of an event that the history does not have, and one named `suspended` that the stream ends, and why.
        """
        found = subscriptions.find(name)
        resumed = after if last_event_id is None else _number(last_event_id)
        frames = await subscriptions.stream(found, resumed, owner_of(caller))
        return EventStream(frames, stall_s=subscriptions.limits.stall_s)

    return router


def owner_of(caller: Any) -> str:
    """The name that a caller's subscriptions and streams are counted under; none where there are no tokens."""
    return "" if caller in (None, ANONYMOUS) else str(caller)


def _number(text: str) -> int:
    # An empty one is what a browser sends that was never given any.
    if text == "":
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(LARGEST))):
        raise Refused(400, "bad-request", "Last-Event-ID is the number of a delivery")
    return int(text)


def _events() -> dict[str, Any]:
    schema = {"type": "string", "description": "Frames of Server-Sent Events."}
    return {
        "model": AnswerDocument | UnplacedDocument | TrimmedDocument | SuspendedDocument,
        "description": "The stream; the data of each event is described under application/json.",
        "content": {"text/event-stream": {"schema": schema, "example": EVENTS_EXAMPLE}},
    }
