"""Connect to a NATS server, synchronously: the part of the client protocol that reading a stream needs.

Each task of a micro-batch opens a connection and reads a range. General clients use an event loop and a task for each
message, which would cost more than the reading. The protocol is text lines with counted payloads (NATS client protocol,
2.2 and later: headers and "no responders").
"""

from __future__ import annotations

import json
import os
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ledto.spark.stream.contract import StreamSourceError

_LINE_LIMIT_BYTES: Final = 1 << 20
_PAYLOAD_LIMIT_BYTES: Final = 128 << 20
_BUFFER_BYTES: Final = 1 << 20
_INBOX_TOKEN_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server listens, and its credentials. Pickles, and does not show its secrets."""

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca_file: str | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class NatsMessage(NamedTuple):
    """A message that the server sent to a subscription."""

    reply: bytes
    status: int
    """Set if the server itself made the message in place of a published one; else 0."""
    note: str
    """The status in words."""
    payload: bytes


class NatsConnection:
    """A connection, open until `close`, with one subscription: an inbox that receives all answers.

    Every method raises `OSError` if the server cannot be reached, does not answer in `timeout_seconds` or closes; the
    connection is useless after that. It raises `StreamSourceError` if the server refuses the credentials.
    """

    def __init__(self, server: Server, *, timeout_seconds: float) -> None:
        self._server = server
        self.inbox = f"_INBOX.{os.urandom(_INBOX_TOKEN_BYTES).hex()}"
        self._socket = socket.create_connection((server.host, server.port), timeout=timeout_seconds)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.max_payload_bytes = self._greet()
        except BaseException:
            self._socket.close()
            raise

    def _greet(self) -> int:
        """Exchange greetings, with TLS if needed, and subscribe; return the largest payload the server takes."""
        # Read unbuffered, because a TLS handshake may follow the first line.
        line = b""
        while not line.endswith(b"\n"):
            byte = self._socket.recv(1)
            if not byte or len(line) > _LINE_LIMIT_BYTES:
                raise ConnectionError("the server closed before it said what it is")
            line += byte
        kind, _, content = line.partition(b" ")
        if kind.upper() != b"INFO":
            raise StreamSourceError(f"what listens at {self._server.address} is not a NATS server; check the address")
        info = _parse_json(content)
        if self._server.tls or info.get("tls_required"):
            self._secure()
        self._reading = self._socket.makefile("rb", buffering=_BUFFER_BYTES)
        self._send(f"CONNECT {json.dumps(self._hello())}\r\nSUB {self.inbox}.* 1\r\nPING\r\n".encode())
        while (line := self._line()) != b"PONG":
            self._handle_control(line)
        return int(info.get("max_payload", 1 << 20))

    def _hello(self) -> dict[str, Any]:
        """Make the options of CONNECT, with the credentials."""
        server = self._server
        hello: dict[str, Any] = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        hello |= {"protocol": 1, "lang": "python", "version": "1", "name": "ledto"}
        secrets = {"auth_token": server.token, "user": server.user, "pass": server.password}
        return hello | {name: value for name, value in secrets.items() if value is not None}

    def _secure(self) -> None:
        """Begin TLS."""
        context = ssl.create_default_context(cafile=self._server.ca_file)
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=self._server.host)
        except ssl.SSLCertVerificationError as fault:
            raise StreamSourceError(
                f"the certificate of {self._server.address} is not trusted: {fault.verify_message}; "
                "name the file of its authority in the option tlsCaFile"
            ) from None

    def publish(self, subject: str, payload: bytes, *, answer_to: str) -> None:
        """Send a message; answers come to the inbox, under the token `answer_to`."""
        self._send(
            b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), self._inbox_subject(answer_to), len(payload), payload)
        )

    def _inbox_subject(self, token: str) -> bytes:
        """Make the subject of a token in the inbox."""
        return f"{self.inbox}.{token}".encode()

    def request(self, subject: str, content: dict[str, Any]) -> dict[str, Any]:
        """Ask an API that answers in JSON; skips late answers to earlier requests."""
        token = os.urandom(_INBOX_TOKEN_BYTES).hex()
        self.publish(subject, json.dumps(content).encode() if content else b"", answer_to=token)
        while True:
            to, message = self.next()
            if to != token:
                continue
            if message.status:
                raise ConnectionError(f"no one answers {subject.rsplit('.', 1)[0]}: {message.note}")
            return _parse_json(message.payload)

    def next(self) -> tuple[str, NatsMessage]:
        """Wait for the next message to the inbox; return it with the token it was sent to."""
        while True:
            line = self._line()
            if line.startswith((b"MSG ", b"HMSG ")):
                return self._message(line)
            self._handle_control(line)

    def _message(self, line: bytes) -> tuple[str, NatsMessage]:
        """Read an announced message.

        The line is ``MSG SUBJECT SID [REPLY] SIZE`` or ``HMSG SUBJECT SID [REPLY] HEADERS SIZE``.
        """
        fields = line.split(b" ")
        try:
            headers_size = int(fields.pop(-2)) if fields[0] == b"HMSG" else 0
            size = int(fields[-1])
            subject, reply = fields[1], fields[3] if len(fields) == 5 else b""
        except (ValueError, IndexError):
            raise ConnectionError("the server sent a message without its sizes") from None
        if not 0 <= headers_size <= size <= _PAYLOAD_LIMIT_BYTES:
            raise ConnectionError("the server announced a message of an impossible size")
        body = self._reading.read(size + 2)
        if len(body) != size + 2:
            raise ConnectionError("the server closed in the middle of a message")
        status, note = _parse_status(body[:headers_size]) if headers_size else (0, "")
        to = subject.rpartition(b".")[2].decode(errors="replace")
        return to, NatsMessage(reply, status, note, body[headers_size:-2])

    def _line(self) -> bytes:
        line = self._reading.readline(_LINE_LIMIT_BYTES)
        if not line.endswith(b"\n"):
            raise ConnectionError("the server closed")
        return line.rstrip(b"\r\n")

    def _handle_control(self, line: bytes) -> None:
        """Handle a line that is not a message; raises if it is an error."""
        if line == b"PING":
            self._send(b"PONG\r\n")
        elif line.startswith(b"-ERR"):
            error = line[4:].decode(errors="replace").strip(" '")
            if "authoriz" in error.lower() or "authentication" in error.lower():
                raise StreamSourceError(
                    f"the broker at {self._server.address} refuses the credentials ({error}); "
                    "set LEDTO_BROKER_TOKEN, or the options token, tokenFile, or user and password"
                )
            raise ConnectionError(f"the server says: {error}")

    def _send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        if hasattr(self, "_reading"):
            self._reading.close()
        self._socket.close()

    def __enter__(self) -> NatsConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _parse_json(text: bytes) -> dict[str, Any]:
    """Parse a JSON object; raises `ConnectionError` for anything else."""
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ConnectionError("the server gave an answer that is not JSON")
    return content


def _parse_status(headers: bytes) -> tuple[int, str]:
    """Parse the status in the first line, such as ``NATS/1.0 404 No Messages``; 0 if there is only the version."""
    _, _, status = headers.partition(b"\r\n")[0].decode(errors="replace").partition(" ")
    code, _, note = status.partition(" ")
    return (int(code), f"{code} {note}".strip()) if code.isdigit() else (0, "")
