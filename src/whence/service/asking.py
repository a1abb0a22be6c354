"""Questions over HTTP: those of the command line, under ``/v1/history``, with the documents that ``--json`` prints.

`whence sql` is left out on purpose: a query can take any memory and any time, and no limit of ours would be safe.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Annotated, Any, Final, Literal, Protocol

import pyarrow.compute as pc
from fastapi import APIRouter, Depends, FastAPI, Query, Response
from pydantic import StringConstraints
from starlette.types import Receive, Scope, Send

from whence.history.errors import EventNotFound
from whence.history.questions.history import History, Process
from whence.history.questions.locating import unknown_name
from whence.history.questions.ordering import order_documents
from whence.history.times import time_or_event
from whence.service.answer_bounds import truncated_events
from whence.service.answers import (
    AsideDocument,
    CheckDocument,
    ClocksDocument,
    ConcurrentDocument,
    CutDocument,
    ExplanationDocument,
    ImpactDocument,
    OrderedDocument,
    ProcessDocument,
    RelationDocument,
    WhyDocument,
)
from whence.service.asking_pool import Asker, Deadline, HistorySource, QuestionLimits
from whence.service.asking_problems import PROBLEMS, AskingRoute
from whence.service.limits import Refused
from whence.service.matching_limits import MOST_CHARACTERS, ConditionLimits

MOST_K: Final = 1_000
MOST_POSSIBLE: Final = 100
MOST_ROWS: Final = 10_000
MOST_NAMES: Final = 100
LARGEST: Final = 2**63 - 1
SENT_AT_ONCE: Final = 64 << 10
NEXT_HEADER: Final = "Whence-Next"
TRUNCATED_HEADER: Final = "Whence-Truncated"
"""How many events of the answer have texts that were cut."""

Name = Annotated[str, StringConstraints(max_length=1_000)]
EventParameter = Annotated[
    Name, Query(description="An id of the source, PROCESS:SEQ, or @POSITION.", examples=["shop:42"], min_length=1)
]
ComputationParameter = Annotated[
    Name | None, Query(description="Which computation, where several have such an event.", examples=[""])
]
AnsweredParameter = Annotated[
    bool,
    Query(
        description="Whether answers that are only assumed count as recorded: a client's call ends after its server did."
    ),
]
PossibleParameter = Annotated[
    int, Query(ge=0, le=MOST_POSSIBLE, description="How many events to list that are only possible.")
]
KParameter = Annotated[int, Query(ge=0, le=MOST_K, description="How many events to list.")]
SkipParameter = Annotated[int, Query(ge=0, le=LARGEST, description="How many rows to leave out before the first.")]
LimitParameter = Annotated[int, Query(ge=0, le=MOST_ROWS, description="How many rows to give.")]


class Access(Protocol):
    """FastAPI dependencies that let a request through or raise `Refused`."""

    @property
    def reader(self) -> Callable[..., Any]:
        """For those who ask and subscribe."""


class OpenAccess:
    """Everybody may ask."""

    def reader(self) -> None:
        """Let the request through."""


class LongAnswer(Response):
    """An answer that is sent piece by piece, as its reader takes it, and counted in `asker` until it is sent."""

    def __init__(self, asker: Asker, text: str, headers: dict[str, str], media_type: str = "application/json") -> None:
        super().__init__(text, headers=headers, media_type=media_type)
        self._asker = asker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. A reader that takes nothing is let go by the server."""
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
    """A document as the command line prints it, but for the white space."""
    # An attribute may hold half of a surrogate pair, which only an escape can say.
    return json.dumps(document, ensure_ascii=True, separators=(",", ":"))


def json_answer(document: Any, *, status: int = 200) -> Response:
    """The answer that is a small document."""
    return Response(json_text(document), status, media_type="application/json")


def questions_router(
    live: HistorySource, access: Access | None = None, *, limits: QuestionLimits | None = None
) -> APIRouter:
    """The questions, about the newest version of a live history.

    Each is asked in a thread, a few at once, for a bounded time; when the history is replaced meanwhile, again.
    """
    asker = Asker(live, limits or QuestionLimits())
    conditions = ConditionLimits()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        asker.close()

    router = APIRouter(
        prefix="/v1/history",
        tags=["questions"],
        route_class=AskingRoute,
        dependencies=[Depends((access or OpenAccess()).reader)],
        responses=PROBLEMS,
        lifespan=lifespan,
    )

    async def told(question: Callable[[History, Deadline], tuple[str, dict[str, str]]], media_type: str) -> Response:
        """The text that the question gives, and headers; how many events were cut is among them."""

        def asked(history: History, deadline: Deadline) -> tuple[str, dict[str, str]]:
            text, headers = question(history, deadline)
            cut = truncated_events(history)
            return text, headers | ({TRUNCATED_HEADER: str(cut)} if cut else {})

        return LongAnswer(asker, *await asker.ask(asked), media_type)

    async def answer(question: Callable[[History, Deadline], Any]) -> Response:
        """The document of the question's answer, written as text where it was found: that takes long, too."""

        def asked(history: History, deadline: Deadline) -> tuple[str, dict[str, str]]:
            document = question(history, deadline).to_json()
            if cut := truncated_events(history):
                document["truncated"] = cut
            return json_text(document), {}

        return await told(asked, "application/json")

    @router.get("/why", summary="What led to an event", responses=_answers(WhyDocument))
    async def why(
        event: EventParameter,
        k: KParameter = 25,
        possible: PossibleParameter = 10,
        where: Annotated[
            str | None,
            Query(
                max_length=MOST_CHARACTERS,
                description="Only causes that meet a condition in SQL over columns and attributes, of comparisons and "
                "simple functions.",
                examples=["status >= 500 AND name LIKE 'order%'"],
            ),
        ] = None,
        process: Annotated[list[Name] | None, Query(max_length=MOST_NAMES, description="Only causes of these.")] = None,
        name: Annotated[list[Name] | None, Query(max_length=MOST_NAMES, description="Only causes so named.")] = None,
        answered: AnsweredParameter = False,
        computation: ComputationParameter = None,
    ) -> Response:
        """The last k events that are recorded to have led to it, each after its own causes.

        Apart from those, some that could have led to it; what is known to be missing; and whether that is all.

        With a condition or names, the search goes back until k causes meet all of them, or to the start.
        """

        def question(history: History, deadline: Deadline) -> Any:
            if where is not None:
                conditions.check(where)
            return history.why(
                event,
                k=k,
                possible=possible,
                where=where,
                processes=process,
                names=name,
                answered=answered,
                computation=computation,
                on_progress=deadline.check,
            )

        return await answer(question)

    @router.get("/impact", summary="What came of an event", responses=_answers(ImpactDocument))
    async def impact(
        event: EventParameter,
        k: KParameter = 25,
        possible: PossibleParameter = 10,
        computation: ComputationParameter = None,
    ) -> Response:
        """The next k events that it is recorded to have led to, some that it could have led to, and how many there are."""
        return await answer(lambda history, _: history.impact(event, k=k, possible=possible, computation=computation))

    @router.get("/relation", summary="How one event stands to another", responses=_answers(RelationDocument))
    async def relation(
        first: EventParameter,
        second: EventParameter,
        answered: AnsweredParameter = False,
        computation: ComputationParameter = None,
    ) -> Response:
        """One of six words: before, after, possible, concurrent, unknown, equal.

        Before and after: recorded causes lead from one to the other. Possible: only a shared process, or an answer that is
        assumed, does. Concurrent: neither can have led to the other. Unknown: reports are missing that might say more.
        """
        return await answer(
            lambda history, _: history.related(first, second, answered=answered, computation=computation)
        )

    @router.get("/explain", summary="How one event led to another", responses=_answers(ExplanationDocument))
    async def explain(
        first: EventParameter,
        second: EventParameter,
        answered: AnsweredParameter = False,
        computation: ComputationParameter = None,
    ) -> Response:
        """The steps between them, and whether each is recorded; as few as can be are not."""
        return await answer(
            lambda history, _: history.explain(first, second, answered=answered, computation=computation)
        )

    @router.get("/concurrent", summary="What neither led to it nor came of it", responses=_answers(ConcurrentDocument))
    async def concurrent(
        event: EventParameter, k: KParameter = 25, computation: ComputationParameter = None
    ) -> Response:
        """How many events can neither have led to it nor have come of it, the k nearest, and of how many that is unknown."""
        return await answer(lambda history, _: history.concurrent(event, k=k, computation=computation))

    @router.get("/cut", summary="A consistent state", responses=_answers(CutDocument))
    async def cut(
        time: Annotated[
            Name | None,
            Query(
                description="An integer in the history's unit, a time in ISO 8601, or an event.",
                examples=["2026-01-31T12:00:00Z"],
            ),
        ] = None,
        event: Annotated[Name | None, Query(description="An event, where its name could be taken for a time.")] = None,
        k: KParameter = 25,
        computation: ComputationParameter = None,
    ) -> Response:
        """The last event of each process up to a time or an event, and the first k messages under way."""
        if (time is None) == (event is None):
            raise Refused(400, "bad-time", "give a time or an event, one of them")
        return await answer(lambda history, _: _cut(history, time, event, k, computation))

    @router.get(
        "/order",
        summary="All events, causes before effects",
        responses=_answers(OrderedDocument, media_type="application/x-ndjson", what="One document a line."),
    )
    async def order(
        policy: Annotated[Name | None, Query(description="In the order of this policy's deliveries.")] = None,
        skip: SkipParameter = 0,
        limit: LimitParameter = 1_000,
    ) -> Response:
        """A page of the history in an order in which it may have happened, or as a policy delivers it.

        A page of long events may be shorter than asked for: the header `Whence-Next` says how many rows to skip for the
        next one. An empty page is the end.
        """

        def question(history: History, deadline: Deadline) -> tuple[str, dict[str, str]]:
            lines: list[str] = []
            size = 0
            for each in _until(islice(order_documents(history.run, policy=policy, skip=skip), limit), deadline):
                lines.append(json.dumps(each) + "\n")
                size += len(lines[-1])
                if size > asker.limits.answer_bytes:
                    break
            return "".join(lines), {NEXT_HEADER: str(skip + len(lines))}

        return await told(question, "application/x-ndjson")

    @router.get("/processes", summary="The processes", responses=_answers(list[ProcessDocument]))
    async def processes(
        computation: Annotated[Name | None, Query(description="Only those of this computation.")] = None,
        skip: SkipParameter = 0,
        limit: LimitParameter = 1_000,
    ) -> Response:
        """A page of them; the header `Whence-Total` says how many there are."""

        def question(history: History, _: Deadline) -> tuple[str, dict[str, str]]:
            table = history.run.processes.table
            if computation is not None:
                table = table.filter(pc.equal(table["computation"], computation))
                if not len(table):
                    raise EventNotFound(unknown_name(history.run, "computation", computation))
            rows = table.slice(min(skip, len(table)), limit).to_pylist()
            return json_text([Process(**row).to_json() for row in rows]), {"Whence-Total": str(len(table))}

        return await told(question, "application/json")

    @router.get("/check", summary="What was found when the history was made", responses=_answers(CheckDocument))
    async def check() -> Response:
        """How much is provable, reports accounted for, and what wall-clock order and each policy get wrong."""
        return await answer(lambda history, _: history.check())

    @router.get("/quarantine", summary="Reports that were set aside", responses=_answers(list[AsideDocument]))
    async def quarantine(
        k: Annotated[int, Query(ge=0, le=MOST_K, description="How many reports to list.")] = 25,
        outcome: Literal["quarantined", "duplicate", "all"] = "quarantined",
    ) -> Response:
        """With the reasons."""

        def question(history: History, deadline: Deadline) -> tuple[str, dict[str, str]]:
            found = history.quarantine(outcome=None if outcome == "all" else outcome)
            return json_text([each.to_json() for each in _until(islice(found, k), deadline)]), {}

        return await told(question, "application/json")

    @router.get("/clocks", summary="How wrong the clocks are", responses=_answers(ClocksDocument))
    async def clocks() -> Response:
        """How far each clock is ahead of the others, how sure that is, and which is broken."""

        def question(history: History, _: Deadline) -> Any:
            if history.run.manifest.clocks is None:
                raise Refused(404, "no-clocks", "the history says nothing of its clocks")
            return history.clocks()

        return await answer(question)

    return router


def _answers(model: Any, *, media_type: str = "application/json", what: str = "The answer.") -> dict[int | str, Any]:
    if media_type == "application/json":
        return {200: {"model": model, "description": what}}
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {200: {"model": model, "description": what, "content": {media_type: {"schema": schema}}}}


def _cut(history: History, time: str | None, event: str | None, k: int, computation: str | None) -> Any:
    try:
        moment, named = (None, event) if time is None else time_or_event(time, history.unit)
    except ValueError as neither:
        raise Refused(400, "bad-time", f"{neither}; an event of that name is given as event") from None
    if moment is not None and abs(moment) > LARGEST:
        raise Refused(400, "bad-time", f"times are whole numbers of up to 64 bits, in {history.unit}")
    processes = history.run.processes
    wide = len(processes) if computation is None else pc.sum(pc.equal(processes.computation, computation)).as_py()
    if moment is not None and wide > MOST_ROWS:
        raise Refused(400, "too-wide", f"a cut over HTTP is of up to {MOST_ROWS:,} processes: name a computation")
    return history.cut(named, time=moment, k=k, computation=computation)


def _until(found: Iterator[Any], deadline: Deadline) -> Iterator[Any]:
    for each in found:
        deadline.check()
        yield each
