"""Send one request to a webhook: to a host that the operator allowed, within a time limit, following no redirects."""

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

from ledto.service.http.limits import RequestRefused

MOST_URL_CHARACTERS: Final = 2_000
MOST_ANSWER_BYTES: Final = 64 << 10
REST_S: Final = 0.2
"""The longest time to read the rest of an answer."""
PORTS: Final = {"http": 80, "https": 443}
STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r?\n")
NAT64: Final = IPv6Network("64:ff9b::/96")
PLAIN = re.compile(r"[\x21-\x7e]+")


class NotAccepted(Exception):
    """The receiver did not accept a request. The message is one of a few fixed ones, without any text from the receiver."""


class AllowedAddresses(Enum):
    """The addresses that a webhook may be sent to."""

    LOOPBACK = "this machine"
    PUBLIC = "the public internet"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """The parsed URL of a webhook."""

    scheme: str
    host: str
    port: int
    path: str
    reach: AllowedAddresses
    """Which addresses are allowed, whatever its name resolves to when a request is sent."""

    @property
    def authority(self) -> str:
        """Host and port, as in the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


class WebhookHosts:
    """The hosts that webhooks may be sent to: a list of ``name`` or ``name:port``.

    A name in the list may resolve to public addresses only, because whoever controls its DNS could point it at the
    operator's own network. An address in the list, and ``localhost``, are allowed as they are. With `private`, names may
    resolve to any address, and every port of this machine is allowed as well.

    Without these rules, a subscriber could make the service send requests to anything that it can reach.
    """

    def __init__(self, hosts: Iterable[str] = (), *, private: bool = False) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._private = private

    def parse_target(self, url: str) -> WebhookTarget:
        """Parse a URL. Raises `RequestRefused` if it is malformed or not allowed."""
        if len(url) > MOST_URL_CHARACTERS or not PLAIN.fullmatch(url):
            raise RequestRefused(400, "bad-webhook", f"a URL has up to {MOST_URL_CHARACTERS:,} plain characters")
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            raise RequestRefused(400, "bad-webhook", "the webhook's URL cannot be read") from None
        if parts.scheme not in PORTS or not host or port == 0 or parts.fragment:
            raise RequestRefused(400, "bad-webhook", "a webhook's URL is http:// or https://, a host and a path")
        if "@" in parts.netloc or "%" in host:
            raise RequestRefused(400, "bad-webhook", "a webhook's URL has no user and no zone")
        port = port or PORTS[parts.scheme]
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (f"?{parts.query}" if parts.query else "")
        address = parse_address(host)
        is_local = host == "localhost" or (address is not None and address.is_loopback)
        bracketed = f"[{host}]" if ":" in host else host
        if {host, bracketed, f"{bracketed}:{port}"} & self._hosts:
            reach = AllowedAddresses.ANY if address is not None or self._private else AllowedAddresses.PUBLIC
            return WebhookTarget(parts.scheme, host, port, path, AllowedAddresses.LOOPBACK if is_local else reach)
        if self._private and is_local:
            return WebhookTarget(parts.scheme, host, port, path, AllowedAddresses.LOOPBACK)
        message = "this host is not allowed: webhooks go to hosts that the service was started with (--webhook-host)"
        raise RequestRefused(400, "webhook-host", message)


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an IP address; None if it is not one. Return the IPv4 address that an IPv6 address embeds, if any."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address in NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        embedded = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        return embedded or address
    return address


def may_reach(text: str, reach: AllowedAddresses) -> bool:
    """Whether a webhook may be sent to this address."""
    address = parse_address(text)
    if address is None:
        return False
    if reach is AllowedAddresses.LOOPBACK:
        return address.is_loopback
    return reach is AllowedAddresses.ANY or (address.is_global and not address.is_multicast)


async def send(target: WebhookTarget, body: bytes, headers: Mapping[str, str], *, timeout_s: float) -> None:
    """POST the body; return once the receiver has answered 2xx. Raises `NotAccepted`, after `timeout_s` at the latest."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await _connect(target)
            lines = [f"POST {target.path} HTTP/1.1", f"Host: {target.authority}", "Connection: close"]
            lines += [f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in headers.items())]
            writer.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
            await writer.drain()
            status = await _read_status(reader)
        await _read_rest(reader)
    except TimeoutError:
        raise NotAccepted(f"no answer within {timeout_s:g} s") from None
    except ssl.SSLError:
        raise NotAccepted("no secure connection") from None
    except (OSError, EOFError, asyncio.LimitOverrunError, ValueError):
        raise NotAccepted("no connection, or it broke") from None
    finally:
        if writer is not None:
            writer.transport.abort()
    if not 200 <= status < 300:
        raise NotAccepted(f"answered {status}")


async def _connect(target: WebhookTarget) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = ssl.create_default_context() if target.scheme == "https" else None
    address = await _resolve(target)
    name = target.host if secure else None
    return await asyncio.open_connection(
        address, target.port, ssl=secure, server_hostname=name, limit=MOST_ANSWER_BYTES
    )


async def _read_rest(reader: asyncio.StreamReader) -> None:
    """Read a little more, for a moment: a receiver that is cut off while it answers might treat the request as failed."""
    left_bytes = MOST_ANSWER_BYTES
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(REST_S):
            while left_bytes > 0 and (part := await reader.read(left_bytes)):
                left_bytes -= len(part)


async def _resolve(target: WebhookTarget) -> str:
    """Resolve the host to an allowed address. Connect to this address, because the name may resolve to another one later."""
    infos = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = [str(info[4][0]) for info in infos]
    allowed = [address for address in addresses if may_reach(address, target.reach)]
    if addresses and not allowed:
        raise NotAccepted("its address is private: see --webhook-private")
    if not allowed:
        raise OSError("no address")
    return allowed[0]


async def _read_status(reader: asyncio.StreamReader) -> int:
    """Read the status of the final answer; skip interim ones, such as 100 Continue."""
    for _ in range(5):
        head = await reader.readuntil(b"\n")
        match = STATUS_LINE.fullmatch(head)
        if match is None:
            raise ValueError("not HTTP")
        if (status := int(match[1])) >= 200:
            return status
        while (await reader.readuntil(b"\n")).strip():
            pass
    raise ValueError("no final answer")
