"""Describe for OpenAPI what subscribers send and get."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ledto.service.questions.conditions import MOST_CHARACTERS
from ledto.service.questions.documents import Document, EventDocument, MissingDocument, PossibleDocument
from ledto.service.subscriptions.store import Progress, Subscription

LARGEST = 2**63 - 1
MOST_K = 1_000


class NewWebhook(BaseModel):
    """A webhook that answers are sent to."""

    model_config = ConfigDict(extra="forbid")
    url: str = Field(
        max_length=2_000,
        description="An http or https URL, with a host that the operator allowed (--webhook-host).",
        examples=["https://hooks.example.com/ledto"],
    )
    secret: str | None = Field(
        None,
        min_length=16,
        max_length=200,
        description="The secret that requests are signed with. Without one, the service makes one and shows it once.",
    )


class NewSubscription(BaseModel):
    """A subscription to create: to events that meet a condition, each with what led to it."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    where: str = Field(
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="A condition in SQL over name, process, kind, error, computation, id, seq, time, arrival, at, waited, "
        "late, missing, number, and attributes by their names.",
        examples=["status >= 500"],
    )
    k: int = Field(25, ge=0, le=MOST_K, description="How many of its causes to list with each event.")
    computation: str | None = Field(None, max_length=1_000, description="Only events of this computation.")
    webhook: NewWebhook | None = Field(None, description="Where to send answers, besides the stream of events.")
    start: Literal["now", "start"] | Annotated[int, Field(ge=0, le=LARGEST)] = Field(
        "now", alias="from", description="Which deliveries: from now on, all in the log, or those after this number."
    )


class WebhookDocument(Document):
    """The state of a webhook."""

    origin: str = Field(description="The URL up to the host; the rest may be a secret.")
    state: str = Field(description="ok, retrying, failing or suspended.")
    position: int = Field(description="The receiver has accepted every matching delivery up to this number.")
    attempts: int = Field(description="How often the next delivery was sent without success.")
    failing_since: int | None = Field(description="When the first of these attempts failed, in nanoseconds since 1970.")
    error: str | None = Field(description="Why the last attempt failed.", examples=["answered 500"])


class SubscriptionDocument(Document):
    """A subscription."""

    id: str = Field(examples=["5f0c9a1d2b3e4f5a6b7c8d9e"])
    where: str
    k: int
    computation: str | None
    from_: int = Field(alias="from", description="Only deliveries with a higher number.")
    created: int = Field(description="In nanoseconds since 1970.")
    events_url: str = Field(description="Where its events are streamed.")
    state: str = Field(description="active, or suspended until it is resumed.")
    error: str | None = Field(description="Why it is suspended.")
    warning: str | None = Field(
        description="Names attributes in the condition that no event has had so far: misspelt, or still to come."
    )
    webhook: WebhookDocument | None


class CreatedDocument(SubscriptionDocument):
    """A new subscription."""

    secret: str | None = Field(None, description="The webhook's secret, if the service made it. It is not shown again.")


class AnswerDocument(Document):
    """A delivered event, and what led to it."""

    type: Literal["answer"]
    subscription: str
    number: int = Field(description="The number of the delivery; with the subscription, it identifies this answer.")
    event: EventDocument
    causes: list[EventDocument] = Field(
        description="The last k events that are recorded to have led to it, each after its own causes."
    )
    more: bool = Field(description="Whether there are more before those.")
    missing: list[MissingDocument] = Field(description="Reports that are missing among its causes.")
    missing_at_delivery: list[str] = Field(
        description="Messages it received whose sending was not reported when it was delivered; some may have been since."
    )
    possible: list[PossibleDocument] = Field(
        description="A few possible causes besides: could have led to it, but no report says so."
    )
    more_possible: bool = Field(description="Whether there may be more possible causes.")
    complete: bool = Field(description="Whether no report is known to be missing.")
    late: bool = Field(description="Whether the report arrived too late, so the event was delivered out of order.")
    policy: Any = Field(description="The delivery policy.")
    at: int | None = Field(description="When it was delivered, in nanoseconds.")
    waited: int | None = Field(description="How long it waited, in nanoseconds.")
    version: int = Field(description="The version of the history that was asked.")
    truncated: int | None = Field(
        None, description="How many of the events have texts that were cut, because the answer would be too large."
    )


class UnplacedDocument(Document):
    """A delivered event that the history does not have, because later reports contradict it. Its causes are not known."""

    type: Literal["unplaced"]
    subscription: str
    number: int
    computation: str
    process: str
    seq: int | None
    id: str | None
    name: str | None
    kind: str | None
    time: int | None
    at: int | None
    waited: int | None
    late: bool


class SuspendedDocument(Document):
    """The subscription is suspended. Once it is resumed, it continues after the last number."""

    type: Literal["suspended"]
    subscription: str
    reason: str


class TrimmedDocument(Document):
    """Deliveries were removed from the log before the subscriber got them."""

    type: Literal["trimmed"]
    subscription: str
    after: int = Field(description="The last number that the subscriber has seen.")
    first: int = Field(description="The first number that the log still has.")
    removed: int = Field(description="How many were removed; some may have met the condition.")


def subscription_document(
    subscription: Subscription, progress: Progress | None, *, origin: str, state: str, warning: str | None
) -> dict[str, Any]:
    """Make the document of a subscription, without its secrets; `origin` and `state` are its webhook's."""
    webhook = None
    if progress is not None:
        shown = {name: getattr(progress, name) for name in ("position", "attempts", "failing_since", "error")}
        webhook = {"origin": origin, "state": state, **shown}
    return {
        "id": subscription.id,
        "where": subscription.where,
        "k": subscription.k,
        "computation": subscription.computation,
        "from": subscription.start,
        "created": subscription.created,
        "events_url": f"/v1/subscriptions/{subscription.id}/events",
        "state": "active" if subscription.suspended is None else "suspended",
        "error": subscription.suspended,
        "warning": warning,
        "webhook": webhook,
    }
