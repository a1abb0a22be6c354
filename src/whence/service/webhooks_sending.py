"""Sends one webhook: to a host that the operator named, within a time, following nothing and reading next to nothing."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, urlsplit

from whence.service.limits import Refused

MOST_URL_CHARACTERS: Final = 2_000
MOST_ANSWER_BYTES: Final = 64 << 10
REST_S: Final = 0.2
PORTS: Final = {"http": 80, "https": 443}
STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r?\n")
PLAIN = re.compile(r"[\x21-\x7e]+")


class NotTaken(Exception):
    """The receiver did not take it. The message is one of a few, without anything that the receiver said."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a webhook goes."""

    scheme: str
    host: str
    port: int
    path: str
    loopback: bool
    """Whether it must be this machine, whatever the name resolves to."""

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
    """The hosts that webhooks may go to: those of a list, ``name`` or ``name:port``, and this machine unless it is left out.

    Without it, whoever may subscribe could have the service speak to anything that it can reach.
    """

    def __init__(self, hosts: Iterable[str] = (), *, loopback: bool = True) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._loopback = loopback

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
        if host in self._hosts or f"{host}:{number}" in self._hosts:
            return Target(parts.scheme, host, number, path, loopback=False)
        if self._loopback and (host == "localhost" or _is_loopback(host)):
            return Target(parts.scheme, host, number, path, loopback=True)
        told = "webhooks go to hosts that the service was started with (--webhook-host), and this is none of them"
        raise Refused(400, "webhook-host", told)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


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
    found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = [str(each[4][0]) for each in found]
    if target.loopback:
        addresses = [each for each in addresses if _is_loopback(each)]
    if not addresses:
        raise OSError("no address")
    return addresses[0]


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
