"""Sends one webhook: to a host that the operator named, within a time, following nothing and reading next to nothing."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import quote, urlsplit

from whence.service.limits import Refused

MOST_URL_CHARACTERS: Final = 2_000
MOST_ANSWER_BYTES: Final = 64 << 10
REST_S: Final = 0.2
PORTS: Final = {"http": 80, "https": 443}
STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r?\n")
NAT64: Final = IPv6Network("64:ff9b::/96")
PLAIN = re.compile(r"[\x21-\x7e]+")


class NotTaken(Exception):
    """The receiver did not take it. The message is one of a few, without anything that the receiver said."""


class Reach(Enum):
    """The addresses that a webhook may go to."""

    LOOPBACK = "this machine"
    PUBLIC = "the public internet"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a webhook goes."""

    scheme: str
    host: str
    port: int
    path: str
    reach: Reach
    """Which addresses it may have, whatever its name resolves to when it is sent."""

    @property
    def origin(self) -> str:
        """What may be shown of it: the rest of a URL is often a secret."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, as in the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


class WebhookHosts:
    """The hosts that webhooks may go to: those of a list, ``name`` or ``name:port``.

    A name of the list may lead to public addresses only, because whoever answers for it in the DNS could point it at the
    operator's own network; an address of the list, and ``localhost``, mean what they say. With `private`, names may lead
    to any address, and every port of this machine may be called as well.

    Without all that, whoever may subscribe could have the service speak to anything that it can reach.
    """

    def __init__(self, hosts: Iterable[str] = (), *, private: bool = False) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._private = private

    def target(self, url: str) -> Target:
        """The parts of a URL. Raises `Refused` where it is not one, or is not allowed."""
        if len(url) > MOST_URL_CHARACTERS or not PLAIN.fullmatch(url):
            raise Refused(400, "bad-webhook", f"a URL has up to {MOST_URL_CHARACTERS:,} plain characters")
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            raise Refused(400, "bad-webhook", "the webhook's URL cannot be read") from None
        if parts.scheme not in PORTS or not host or port == 0 or parts.fragment:
            raise Refused(400, "bad-webhook", "a webhook's URL is http:// or https://, a host and a path")
        if "@" in parts.netloc or "%" in host:
            raise Refused(400, "bad-webhook", "a webhook's URL names no user and no zone")
        number = port or PORTS[parts.scheme]
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (f"?{parts.query}" if parts.query else "")
        address = address_of(host)
        here = host == "localhost" or (address is not None and address.is_loopback)
        shown = f"[{host}]" if ":" in host else host
        if {host, shown, f"{shown}:{number}"} & self._hosts:
            literal = Reach.ANY if address is not None or self._private else Reach.PUBLIC
            return Target(parts.scheme, host, number, path, Reach.LOOPBACK if here else literal)
        if self._private and here:
            return Target(parts.scheme, host, number, path, Reach.LOOPBACK)
        told = "webhooks go to hosts that the service was started with (--webhook-host), and this is none of them"
        raise Refused(400, "webhook-host", told)


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    """The address that is written so; the IPv4 one within an IPv6 one, where it is that which is called."""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        if found in NAT64:
            return IPv4Address(int(found) & 0xFFFFFFFF)
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1]
        return inner or found
    return found


def may_reach(text: str, reach: Reach) -> bool:
    """Whether a webhook may go to this address."""
    address = address_of(text)
    if address is None:
        return False
    if reach is Reach.LOOPBACK:
        return address.is_loopback
    return reach is Reach.ANY or (address.is_global and not address.is_multicast)


async def send(target: Target, body: bytes, headers: Mapping[str, str], *, timeout_s: float) -> None:
    """POST the body; returns when the receiver answered 2xx. Raises `NotTaken`, after `timeout_s` at the latest."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await _connect(target)
            lines = [f"POST {target.path} HTTP/1.1", f"Host: {target.authority}", "Connection: close"]
            lines += [f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in headers.items())]
            writer.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
            await writer.drain()
            status = await _status(reader)
        await _read_the_rest(reader)
    except TimeoutError:
        raise NotTaken(f"no answer within {timeout_s:g} s") from None
    except ssl.SSLError:
        raise NotTaken("no secure connection") from None
    except (OSError, EOFError, asyncio.LimitOverrunError, ValueError):
        raise NotTaken("no connection, or it broke") from None
    finally:
        if writer is not None:
            writer.transport.abort()
    if not 200 <= status < 300:
        raise NotTaken(f"answered {status}")


async def _connect(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = ssl.create_default_context() if target.scheme == "https" else None
    address = await _address(target)
    name = target.host if secure else None
    return await asyncio.open_connection(
        address, target.port, ssl=secure, server_hostname=name, limit=MOST_ANSWER_BYTES
    )


async def _read_the_rest(reader: asyncio.StreamReader) -> None:
    """For a moment, and not much: a receiver that is cut off while it answers might take that for a failure of its own."""
    left = MOST_ANSWER_BYTES
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(REST_S):
            while left > 0 and (part := await reader.read(left)):
                left -= len(part)


async def _address(target: Target) -> str:
    """An address that the name has now. The connection is made to it, not to the name, which may mean another by then."""
    found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = [str(each[4][0]) for each in found]
    allowed = [each for each in addresses if may_reach(each, target.reach)]
    if addresses and not allowed:
        raise NotTaken("its address is private: see --webhook-private")
    if not allowed:
        raise OSError("no address")
    return allowed[0]


async def _status(reader: asyncio.StreamReader) -> int:
    """Of the final answer: others, such as 100 Continue, may come before it."""
    for _ in range(5):
        head = await reader.readuntil(b"\n")
        found = STATUS_LINE.fullmatch(head)
        if found is None:
            raise ValueError("not HTTP")
        if (status := int(found[1])) >= 200:
            return status
        while (await reader.readuntil(b"\n")).strip():
            pass
    raise ValueError("no final answer")
