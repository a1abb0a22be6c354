"""Write and read the header that carries a message's cause: the key of its send and the sender's stamp.

    >>> Message.from_text("1;shop@k2m7:3;EQkJc2hvcEBrMm03;")    # the value of the header ledto-cause
    Message(key='shop@k2m7:3', stamp=shop@k2m7@9, computation='')

The parts are a version, the key, the stamp's bytes and the computation. The last two may be empty. The same text serves as
an HTTP header and as gRPC metadata.

Guarantees: text that `Message.to_text` wrote reads back as the same message. Any other text reads as None; reading never
raises. A header has at most `MOST_CHARACTERS`: a stamp that does not fit is left out, since the key alone names the cause.

HAZARD: whoever can set a request's headers can name a cause. Do not read headers of strangers: pass
``accept_causes=False`` to the integrations.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from ledto.clocks import Stamp, StampError, stamp_from_bytes
from ledto.clocks.wire import MAX_NAME_BYTES

HEADER: Final = "ledto-cause"
"""The name of the HTTP header and of the gRPC metadata."""
MOST_CHARACTERS: Final = 4_096
"""The length of a header at most. gRPC takes 8 KiB of metadata in all, and HTTP servers not much more."""

_VERSION = "1"
_SAFE = "@:/+~"
_KEY_BYTES = MAX_NAME_BYTES + 20


@dataclass(frozen=True, slots=True)
class Message:
    """A message under way: its key, which is the id of its send, and the sender's stamp."""

    key: str
    stamp: Stamp | None = None
    computation: str = ""

    def to_text(self) -> str:
        """Write the header's value. Leave out a stamp that does not fit."""
        stamp = "" if self.stamp is None else base64.urlsafe_b64encode(self.stamp.to_bytes()).decode().rstrip("=")
        computation = quote(self.computation, safe=_SAFE)
        text = f"{_VERSION};{quote(self.key, safe=_SAFE)};{stamp};{computation}"
        return text if len(text) <= MOST_CHARACTERS else f"{_VERSION};{quote(self.key, safe=_SAFE)};;{computation}"

    @classmethod
    def from_text(cls, text: object) -> Message | None:
        """Parse the header's value; None if it is malformed. Never raises."""
        if isinstance(text, bytes):
            text = text.decode("latin-1")
        if not isinstance(text, str) or len(text) > MOST_CHARACTERS or not text.isascii():
            return None
        parts = text.split(";")
        if len(parts) != 4 or parts[0] != _VERSION:
            return None
        try:
            key, computation = (unquote(part, errors="strict") for part in (parts[1], parts[3]))
            raw = base64.b64decode(parts[2] + "=" * (-len(parts[2]) % 4), altchars=b"-_", validate=True)
            message = cls(key, stamp_from_bytes(raw) if raw else None, computation)
            is_legal = is_legal_key(key) and is_legal_key(computation or "-") and message.to_text() == text
        except (StampError, ValueError, binascii.Error):
            return None
        return message if is_legal else None


def is_legal_key(key: str) -> bool:
    """Return whether a report may have this text as a key or as a computation."""
    return 0 < len(key.encode()) <= _KEY_BYTES and "\0" not in key


def inject(carrier: MutableMapping[str, str], message: Message | None) -> None:
    """Write the message into headers. Write nothing for None, the result of a send that was dropped."""
    if message is not None:
        carrier[HEADER] = message.to_text()


def extract(
    carrier: Mapping[str, Any] | Iterable[tuple[Any, Any]] | None,
    *,
    on_malformed: Callable[[], None] | None = None,
) -> Message | None:
    """Read the message from headers: a mapping or pairs, text or bytes, names in any case of letters.

    Return None if there is no such header. Return None and call `on_malformed` if the header is malformed or occurs
    twice. Never raises because of what the carrier holds.
    """
    try:
        pairs = () if carrier is None else carrier.items() if isinstance(carrier, Mapping) else carrier
        values = [value for name, value in pairs if _is_header(name)]
    except Exception:
        values = [None]
    if not values:
        return None
    message = Message.from_text(values[0]) if len(values) == 1 else None
    if message is None and on_malformed is not None:
        on_malformed()
    return message


def _is_header(name: object) -> bool:
    if isinstance(name, bytes):
        return name.lower() == HEADER.encode()
    return isinstance(name, str) and name.lower() == HEADER
