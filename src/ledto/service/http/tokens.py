"""Check bearer tokens, which a file lists, before a caller may send or ask.

Each line of the file has one token; a line that begins with ``#`` is a comment::

    writer shop  3k9-long-and-random
    reader ops   sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

Without a file everybody may do everything, so the service then listens on loopback only.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from starlette.requests import Request

from ledto.errors import LedtoError
from ledto.service.http.limits import RequestRefused

Role = Literal["writer", "reader"]
ANONYMOUS: Final = "anonymous"
LEAST_TOKEN_CHARACTERS: Final = 16
"""A shorter token could be guessed."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})", re.IGNORECASE)
_TOKEN = re.compile(r"[\x21-\x7e]+")


class BadTokens(LedtoError):
    """A file of tokens that cannot be used. The message names the line, never its content."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the file: a role, a name, and the SHA-256 of a token."""

    role: Role
    name: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Access:
    """What callers may do; everything if `entries` is None."""

    entries: tuple[Entry, ...] | None = None

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return self.entries is None

    def writer(self, request: Request) -> str:
        """Return the name of the caller, who sends reports. Raises `RequestRefused`. A FastAPI dependency."""
        return self.writer_with(_authorization(request))

    def writer_with(self, authorization: str) -> str:
        """Return the name of the caller who sends reports with this header. Raises `RequestRefused`."""
        return self._check(authorization, "writer")

    def reader(self, request: Request) -> str:
        """Return the name of the caller, who asks or subscribes. Raises `RequestRefused`. A FastAPI dependency."""
        return self._check(_authorization(request), "reader")

    def _check(self, authorization: str, role: Role) -> str:
        if self.entries is None:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise RequestRefused(401, "no-token", "this needs the header Authorization: Bearer TOKEN")
        digest = hashlib.sha256(token.strip().encode()).digest()
        entries = [entry for entry in self.entries if hmac.compare_digest(entry.digest, digest)]
        if not entries:
            raise RequestRefused(401, "bad-token", "this token is not known")
        for entry in entries:
            if entry.role == role:
                return entry.name
        raise RequestRefused(403, "wrong-role", f"this token is not one of a {role}")


def _authorization(request: Request) -> str:
    return request.headers.get("authorization", "")


def read_tokens(path: Path) -> Access:
    """Read a file of tokens. Raises `BadTokens`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise BadTokens(f"the tokens in {path} cannot be read: {type(fault).__name__}") from None
    entries = tuple(_parse_lines(lines))
    if not entries:
        raise BadTokens("the file of tokens has none: write one on each line, such as 'writer shop TOKEN'")
    return Access(entries)


def _parse_lines(lines: Iterable[str]) -> Iterator[Entry]:
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if fields and not fields[0].startswith("#"):
            yield _parse_entry(fields, number)


def _parse_entry(fields: list[str], number: int) -> Entry:
    wanted = "a line is 'writer NAME TOKEN' or 'reader NAME TOKEN', the token plain or as sha256:HEX"
    if len(fields) != 3 or fields[0] not in ("writer", "reader"):
        raise BadTokens(f"line {number} of the tokens: {wanted}")
    role: Role = "writer" if fields[0] == "writer" else "reader"
    if _NAME.fullmatch(fields[1]) is None:
        raise BadTokens(f"line {number} of the tokens: a name is up to 64 letters, digits and . _ -")
    if digest := _DIGEST.fullmatch(fields[2]):
        return Entry(role, fields[1], bytes.fromhex(digest[1]))
    if len(fields[2]) < LEAST_TOKEN_CHARACTERS or _TOKEN.fullmatch(fields[2]) is None:
        raise BadTokens(f"line {number} of the tokens: a token has {LEAST_TOKEN_CHARACTERS} or more plain characters")
    return Entry(role, fields[1], hashlib.sha256(fields[2].encode()).digest())
