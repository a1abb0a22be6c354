"""The parameters of questions over HTTP, and their bounds."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query
from pydantic import StringConstraints

from ledto.service.questions.conditions import MOST_CHARACTERS

MOST_K: Final = 1_000
MOST_POSSIBLE: Final = 100
MOST_ROWS: Final = 10_000
MOST_NAMES: Final = 100
MOST_TEXTS: Final = 10
LARGEST: Final = 2**63 - 1

Name = Annotated[str, StringConstraints(max_length=1_000)]
EventParameter = Annotated[
    Name,
    Query(
        description="An id that a source gave, PROCESS:SEQ, @POSITION, or a text that no other event has.",
        examples=["shop:42"],
        min_length=1,
    ),
]
ComputationParameter = Annotated[
    Name | None, Query(description="Which computation, if several have such an event.", examples=[""])
]
AnsweredParameter = Annotated[
    bool,
    Query(
        description="Whether an answer that is only assumed counts as recorded: a client's call ends after its server's."
    ),
]
PossibleParameter = Annotated[int, Query(ge=0, le=MOST_POSSIBLE, description="How many possible events to list.")]
KParameter = Annotated[int, Query(ge=0, le=MOST_K, description="How many events to list.")]
SkipParameter = Annotated[int, Query(ge=0, le=LARGEST, description="How many rows to skip.")]
LimitParameter = Annotated[int, Query(ge=0, le=MOST_ROWS, description="How many rows to return.")]


WhereParameter = Annotated[
    str | None,
    Query(
        max_length=MOST_CHARACTERS,
        description="Only events that meet this SQL condition over columns and attributes. It has comparisons and simple "
        "functions.",
        examples=["status >= 500 AND name LIKE 'order%'"],
    ),
]
TextParameter = Annotated[
    list[Name] | None,
    Query(
        max_length=MOST_TEXTS,
        description="Words that follow each other in the name or in an attribute. Of several texts, all are there.",
        examples=["order failed"],
    ),
]
LastParameter = Annotated[int, Query(ge=1, le=MOST_K, description="How many events to list, the newest.")]
FirstParameter = Annotated[int | None, Query(ge=1, le=MOST_K, description="List so many of the oldest instead.")]
ProcessParameter = Annotated[
    list[Name] | None, Query(max_length=MOST_NAMES, description="Only events of these processes.")
]
SinceParameter = Annotated[
    Name | None, Query(description="Only from this wall time on: ISO 8601, or an integer in the history's unit.")
]
UntilParameter = Annotated[Name | None, Query(description="Only up to this wall time.")]
