"""Answer the questions of the command line over HTTP, under ``/v1/history``, with the documents that ``--json`` prints.

`ledto sql` is left out on purpose: a query can take any memory and any time, and no limit would be safe.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

import pyarrow.compute as pc
from fastapi import APIRouter, Depends, FastAPI, Query, Response

from ledto.history.errors import EventNotFound
from ledto.history.times import parse_time, time_or_event
from ledto.questions.check import Process
from ledto.questions.history import History
from ledto.questions.locate import unknown_name
from ledto.questions.order import order_documents
from ledto.service.http.limits import RequestRefused
from ledto.service.questions.bounds import truncated_events
from ledto.service.questions.conditions import ConditionLimits
from ledto.service.questions.documents import (
    CheckDocument,
    ClocksDocument,
    ConcurrentDocument,
    CutDocument,
    ExplanationDocument,
    FoundDocument,
    ImpactDocument,
    OrderedDocument,
    ProcessDocument,
    QuarantinedDocument,
    RelationDocument,
    WhyDocument,
)
from ledto.service.questions.parameters import (
    LARGEST,
    MOST_K,
    MOST_NAMES,
    MOST_ROWS,
    AnsweredParameter,
    ComputationParameter,
    EventParameter,
    FirstParameter,
    KParameter,
    LastParameter,
    LimitParameter,
    Name,
    PossibleParameter,
    ProcessParameter,
    SinceParameter,
    SkipParameter,
    TextParameter,
    UntilParameter,
    WhereParameter,
)
from ledto.service.questions.pool import Asker, Deadline, HistorySource, QuestionLimits
from ledto.service.questions.problems import PROBLEMS, AskingRoute
from ledto.service.questions.responses import LongAnswer, json_text

Value = TypeVar("Value")
NEXT_HEADER: Final = "Ledto-Next"
TRUNCATED_HEADER: Final = "Ledto-Truncated"
"""The number of events in the answer whose texts were cut."""


class AccessChecks(Protocol):
    """FastAPI dependencies that let a request through or raise `RequestRefused`."""

    @property
    def reader(self) -> Callable[..., Any]:
        """The dependency for those who ask and subscribe."""


class OpenAccess:
    """Access for everybody."""

    def reader(self) -> None:
        """Let the request through."""


def questions_router(
    live: HistorySource, access: AccessChecks | None = None, *, limits: QuestionLimits | None = None
) -> APIRouter:
    """Make the routes of all questions, which the newest version of a live history answers.

    Questions run in threads, a few at once, each for a bounded time. One whose history is replaced meanwhile runs again.
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

    async def answer_text(
        question: Callable[[History, Deadline], tuple[str, dict[str, str]]], media_type: str
    ) -> Response:
        """Answer with the text and headers that the question returns, and a header that counts truncated events."""

        def ask(history: History, deadline: Deadline) -> tuple[str, dict[str, str]]:
            text, headers = question(history, deadline)
            truncated = truncated_events(history)
            return text, headers | ({TRUNCATED_HEADER: str(truncated)} if truncated else {})

        return LongAnswer(asker, *await asker.ask(ask), media_type)

    async def answer(question: Callable[[History, Deadline], Any]) -> Response:
        """Answer with the document of what the question returns."""

        # Encoding takes long, so it is part of the work in the thread.
        def ask(history: History, deadline: Deadline) -> tuple[str, dict[str, str]]:
            document = question(history, deadline).to_json()
            if truncated := truncated_events(history):
                document["truncated"] = truncated
            return json_text(document), {}

        return await answer_text(ask, "application/json")

    @router.get("/find", summary="Events with a text", responses=_answers(FoundDocument))
    async def find(
        text: TextParameter = None,
        last: LastParameter = 20,
        first: FirstParameter = None,
        errors: Annotated[bool, Query(description="Only events that report a failure.")] = False,
        process: ProcessParameter = None,
        since: SinceParameter = None,
        until: UntilParameter = None,
        where: WhereParameter = None,
        computation: ComputationParameter = None,
    ) -> Response:
        """List the newest events that meet everything that is asked for, the newest last.

        An index finds texts. A condition alone looks at event after event, and may take too long.
        """

        def question(history: History, deadline: Deadline) -> Any:
            if where is not None:
                conditions.check(where)
            return history.find(
                text,
                where=where,
                last=last,
                first=first,
                errors=errors,
                processes=process,
                since=_bounded_time(history, since),
                until=_bounded_time(history, until),
                computation=computation,
                on_progress=deadline.check,
            )

        return await answer(question)

    @router.get("/why", summary="What led to an event", responses=_answers(WhyDocument))
    async def why(
        event: EventParameter,
        k: KParameter = 25,
        possible: PossibleParameter = 10,
        where: WhereParameter = None,
        process: ProcessParameter = None,
        name: Annotated[
            list[Name] | None, Query(max_length=MOST_NAMES, description="Only causes with these names.")
        ] = None,
        answered: AnsweredParameter = False,
        computation: ComputationParameter = None,
    ) -> Response:
        """List the last k events that are recorded to have led to it, each after its own causes.

        The answer also has possible causes, reports that are missing, and whether the answer is complete.

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

    @router.get("/impact", summary="What an event led to", responses=_answers(ImpactDocument))
    async def impact(
        event: EventParameter,
        k: KParameter = 25,
        possible: PossibleParameter = 10,
        computation: ComputationParameter = None,
    ) -> Response:
        """List the first k recorded effects and some possible ones; count all."""
        return await answer(lambda history, _: history.impact(event, k=k, possible=possible, computation=computation))

    @router.get("/relation", summary="How two events are related", responses=_answers(RelationDocument))
    async def relation(
        first: EventParameter,
        second: EventParameter,
        answered: AnsweredParameter = False,
        computation: ComputationParameter = None,
    ) -> Response:
        """Answer one of six words: before, after, possible, concurrent, unknown, equal.

        Before and after: recorded causes lead from one to the other. Possible: only a shared process, or an assumed
        answer, leads there. Concurrent: neither can have led to the other. Unknown: missing reports might say more.
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
        """List the steps between them, and whether each is recorded. As few as possible are not."""
        return await answer(
            lambda history, _: history.explain(first, second, answered=answered, computation=computation)
        )

    @router.get("/concurrent", summary="What is concurrent with an event", responses=_answers(ConcurrentDocument))
    async def concurrent(
        event: EventParameter, k: KParameter = 25, computation: ComputationParameter = None
    ) -> Response:
        """List the k nearest events that can be neither causes nor effects; count all, and those where it is unknown."""
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
        event: Annotated[Name | None, Query(description="An event, if its name could be read as a time.")] = None,
        k: KParameter = 25,
        computation: ComputationParameter = None,
    ) -> Response:
        """List the last event of each process up to a time or an event, and the first k messages in flight."""
        if (time is None) == (event is None):
            raise RequestRefused(400, "bad-time", "give either a time or an event")
        return await answer(lambda history, _: _cut(history, time, event, k, computation))

    @router.get(
        "/order",
        summary="All events, causes before effects",
        responses=_answers(OrderedDocument, media_type="application/x-ndjson", what="One document per line."),
    )
    async def order(
        policy: Annotated[Name | None, Query(description="In the order of this policy's deliveries.")] = None,
        skip: SkipParameter = 0,
        limit: LimitParameter = 1_000,
    ) -> Response:
        """List a page of the history, in an order in which it may have happened, or as a policy delivers it.

        A page of long events may be shorter than `limit`: the header `Ledto-Next` says how many rows to skip for the
        next page. An empty page is the end.
        """

        def question(history: History, deadline: Deadline) -> tuple[str, dict[str, str]]:
            lines: list[str] = []
            size = 0
            documents = islice(order_documents(history.run, policy=policy, skip=skip), limit)
            for document in _check_each(documents, deadline):
                lines.append(json.dumps(document) + "\n")
                size += len(lines[-1])
                if size > asker.limits.answer_bytes:
                    break
            return "".join(lines), {NEXT_HEADER: str(skip + len(lines))}

        return await answer_text(question, "application/x-ndjson")

    @router.get("/processes", summary="The processes", responses=_answers(list[ProcessDocument]))
    async def processes(
        computation: Annotated[Name | None, Query(description="Only those of this computation.")] = None,
        skip: SkipParameter = 0,
        limit: LimitParameter = 1_000,
    ) -> Response:
        """List a page of them; the header `Ledto-Total` says how many there are."""

        def question(history: History, _: Deadline) -> tuple[str, dict[str, str]]:
            table = history.run.processes.table
            if computation is not None:
                table = table.filter(pc.equal(table["computation"], computation))
                if not len(table):
                    raise EventNotFound(unknown_name(history.run, "computation", computation))
            rows = table.slice(min(skip, len(table)), limit).to_pylist()
            return json_text([Process(**row).to_json() for row in rows]), {"Ledto-Total": str(len(table))}

        return await answer_text(question, "application/json")

    @router.get("/check", summary="What was counted when the history was made", responses=_answers(CheckDocument))
    async def check() -> Response:
        """Say how much is provable, account for all reports, and count errors of wall-clock order and each policy."""
        return await answer(lambda history, _: history.check())

    @router.get("/quarantine", summary="Reports that are not used", responses=_answers(list[QuarantinedDocument]))
    async def quarantine(
        k: Annotated[int, Query(ge=0, le=MOST_K, description="How many reports to list.")] = 25,
        outcome: Literal["quarantined", "duplicate", "all"] = "quarantined",
    ) -> Response:
        """List k reports that are not used, with the reasons."""

        def question(history: History, deadline: Deadline) -> tuple[str, dict[str, str]]:
            reports = islice(history.quarantine(outcome=None if outcome == "all" else outcome), k)
            return json_text([report.to_json() for report in _check_each(reports, deadline)]), {}

        return await answer_text(question, "application/json")

    @router.get("/clocks", summary="How wrong the clocks are", responses=_answers(ClocksDocument))
    async def clocks() -> Response:
        """Say how far each clock is ahead of the others, with what confidence, and which are broken."""

        def question(history: History, _: Deadline) -> Any:
            if history.run.manifest.clocks is None:
                raise RequestRefused(404, "no-clocks", "the history has no measurements of its clocks")
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
        moment, event_name = (None, event) if time is None else time_or_event(time, history.unit)
    except ValueError as fault:
        raise RequestRefused(400, "bad-time", f"{fault}; use the parameter event for an event of that name") from None
    if moment is not None and abs(moment) > LARGEST:
        raise RequestRefused(400, "bad-time", f"times are whole numbers of up to 64 bits, in {history.unit}")
    processes = history.run.processes
    count = len(processes) if computation is None else pc.sum(pc.equal(processes.computation, computation)).as_py()
    if moment is not None and count > MOST_ROWS:
        raise RequestRefused(400, "too-wide", f"a cut over HTTP has up to {MOST_ROWS:,} processes: name a computation")
    return history.cut(event_name, time=moment, k=k, computation=computation)


def _bounded_time(history: History, time: str | None) -> int | None:
    """Read a time; raise `RequestRefused` if it is none, or not one of 64 bits."""
    if time is None:
        return None
    moment = parse_time(time, history.unit)
    if moment is None or abs(moment) > LARGEST:
        raise RequestRefused(
            400, "bad-time", f"a time is a text in ISO 8601, or a whole number of {history.unit} of up to 64 bits"
        )
    return moment


def _check_each(values: Iterator[Value], deadline: Deadline) -> Iterator[Value]:
    """Pass values on; raise `RequestRefused` once the deadline is over."""
    for value in values:
        deadline.check()
        yield value
