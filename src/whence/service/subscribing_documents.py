"""What subscribers send and get, described for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from whence.service.answers import Document, EventDocument, MissingDocument, PossibleDocument
from whence.service.matching_limits import MOST_CHARACTERS
from whence.service.subscriptions import Progress, Subscription

LARGEST = 2**63 - 1
MOST_K = 1_000


class NewWebhook(BaseModel):
    """Where to send answers."""

    model_config = ConfigDict(extra="forbid")
    url: str = Field(
        max_length=2_000,
        description="http or https, at a host that the service was started with.",
        examples=["https://hooks.example.com/whence"],
    )
    secret: str | None = Field(
        None,
        min_length=16,
        max_length=200,
        description="What requests are signed with. Without one, the service makes one and says it once.",
    )


class NewSubscription(BaseModel):
    """Tell me of events that meet a condition, with what led to each."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    where: str = Field(
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="A condition in SQL over name, process, kind, error, computation, id, seq, time, arrival, at, waited, "
        "late, missing, number, and attributes by their names.",
        examples=["status >= 500"],
    )
    k: int = Field(25, ge=0, le=MOST_K, description="How many of the events that led to it to tell.")
    computation: str | None = Field(None, max_length=1_000, description="Only events of this computation.")
    webhook: NewWebhook | None = Field(None, description="Where to send answers, besides the stream of events.")
    start: Literal["now", "start"] | Annotated[int, Field(ge=0, le=LARGEST)] = Field(
        "now", alias="from", description="Tell of deliveries from now on, of all in the log, or after this number."
    )


class WebhookDocument(Document):
    """How a webhook is doing."""

    origin: str = Field(description="The URL up to the host; the rest may be a secret.")
    state: str = Field(description="ok, retrying, failing or suspended.")
    position: int = Field(description="Everything up to this number was taken, or was none of the subscription's.")
    attempts: int = Field(description="How often the next one was sent in vain.")
    failing_since: int | None = Field(description="When that began, in nanoseconds since 1970.")
    error: str | None = Field(description="What the last attempt ended with.", examples=["answered 500"])


class SubscriptionDocument(Document):
    """A subscription."""

    id: str = Field(examples=["5f0c9a1d2b3e4f5a6b7c8d9e"])
    where: str
    k: int
    computation: str | None
    from_: int = Field(alias="from", description="Only deliveries of a higher number.")
    created: int = Field(description="In nanoseconds since 1970.")
    events_url: str = Field(description="Where its events are streamed.")
    state: str = Field(description="active, or suspended until it is resumed.")
    error: str | None = Field(description="Why it is suspended.")
    warning: str | None = Field(
        description="That no event so far has an attribute which the condition names; it may be misspelt, or still come."
    )
    webhook: WebhookDocument | None


class CreatedDocument(SubscriptionDocument):
    """A new subscription."""

    secret: str | None = Field(None, description="Of the webhook, where the service made it. It is not told again.")


class AnswerDocument(Document):
    """A delivered event, and what led to it."""

    type: Literal["answer"]
    subscription: str
    number: int = Field(description="Of the delivery: with the subscription, it identifies this answer.")
    event: EventDocument
    causes: list[EventDocument] = Field(
        description="The last k events that are recorded to have led to it, each after its own causes."
    )
    more: bool = Field(description="Whether there are further ones before those.")
    missing: list[MissingDocument] = Field(description="What is known to be missing among them.")
    missing_at_delivery: list[str] = Field(
        description="Messages it received whose sending nobody had reported when it was delivered; some may have come since."
    )
    possible: list[PossibleDocument] = Field(
        description="A few events that could have led to it besides, though nothing recorded says so."
    )
    more_possible: bool = Field(description="Whether there may be further ones of those.")
    complete: bool = Field(description="Whether no report is missing of anything that could have led to it.")
    late: bool = Field(
        description="Whether the report came after its time, so that the event was delivered out of order."
    )
    policy: Any = Field(description="The policy of delivery.")
    at: int | None = Field(description="When it was delivered, in nanoseconds.")
    waited: int | None = Field(description="How long it waited, in nanoseconds.")
    version: int = Field(description="The version of the history that was asked.")
    truncated: int | None = Field(
        None, description="How many of the events have texts that were cut, because the answer would be too large."
    )


class UnplacedDocument(Document):
    """A delivered event that the history no longer has, because later reports contradict it: what led to it is not known."""

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
    """Nothing more is told until the subscription is resumed, which goes on after the last number."""

    type: Literal["suspended"]
    subscription: str
    reason: str


class TrimmedDocument(Document):
    """Deliveries were removed from the log before the subscriber was told of them."""

    type: Literal["trimmed"]
    subscription: str
    after: int = Field(description="The last number that the subscriber knows of.")
    first: int = Field(description="The first number that is still there.")
    removed: int = Field(description="How many were removed; some may have met the condition.")


def subscription_document(
    subscription: Subscription, progress: Progress | None, *, origin: str, state: str, warning: str | None
) -> dict[str, Any]:
    """A subscription without its secrets."""
    webhook = None
    if progress is not None:
        told = {name: getattr(progress, name) for name in ("position", "attempts", "failing_since", "error")}
        webhook = {"origin": origin, "state": state, **told}
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
