"""Processes and messages in autonomous causality (paper, section 4): a send duplicates, a receive combines."""

from __future__ import annotations

from collections import deque

from ledto.clocks.autonomous.instance import Instance
from ledto.clocks.autonomous.stamp import AutonomousStamp, EventName
from ledto.clocks.locked import LockedClock
from ledto.errors import Retired


class AutonomousMessage:
    """A message under way: an instance that can only be combined. Received once; its copies are refused."""

    def __init__(self, instance: Instance) -> None:
        """Use `AutonomousProcess.send` or `from_bytes`."""
        self._instance = instance

    @property
    def stamp(self) -> AutonomousStamp:
        """The stamp of the send."""
        return self._instance.stamp

    def to_bytes(self) -> bytes:
        """Give the bytes for the wire; this object can no longer be received."""
        return self._instance.hand_over()

    @classmethod
    def from_bytes(cls, data: bytes) -> AutonomousMessage:
        """Read a message from the wire; raises `StampError`."""
        return cls(Instance.take_over(data))


class AutonomousProcess(LockedClock):
    """A process that stamps its events by its own instance. Thread-safe."""

    def __init__(self, instance: Instance, *, remember: int = 65_536) -> None:
        """`instance` acts for the process from now on: do not use it elsewhere.

        A copy of one of the last `remember` messages is refused. A copy of an older one counts as a new message: its
        receipt is stamped once more, and stamps stay exact, since a message owns no numbers.
        """
        if not isinstance(instance, Instance):
            raise TypeError(
                f"an AutonomousProcess acts through an Instance, not {type(instance).__name__}; see start()"
            )
        super().__init__()
        self._instance = instance
        self._remember = remember
        self._received: dict[EventName, None] = {}

    @classmethod
    def start(cls, *names: str) -> dict[str, AutonomousProcess]:
        """Make the processes of one computation, each with an equal share of its root."""
        instances = deque([Instance.root()] if names else [])
        while len(instances) < len(names):
            instances += instances.popleft().duplicate()
        return {name: cls(instance) for name, instance in zip(names, instances, strict=True)}

    def local(self) -> AutonomousStamp:
        """Stamp an event of this process."""
        with self._lock:
            return self._instance.event()

    def send(self) -> tuple[AutonomousStamp, AutonomousMessage]:
        """Stamp a send; the message carries the process's past."""
        with self._lock:
            self._instance, message = self._instance.observer_copy()
            return self._instance.stamp, AutonomousMessage(message)

    def receive(self, message: AutonomousMessage) -> AutonomousStamp:
        """Stamp a receipt. For a message that was received before, or a copy, raises `Retired` and counts no event."""
        with self._lock:
            if message._instance.retired:
                raise Retired("this message was received, or put on the wire, before")
            if message.stamp.name in self._received:
                raise Retired(f"the message sent at {message.stamp.name!r} was received here before: this is a copy")
            self._instance = self._instance.combine(message._instance)
            self._received[message.stamp.name] = None
            if len(self._received) > self._remember:
                del self._received[next(iter(self._received))]
            return self._instance.stamp

    def spawn(self) -> AutonomousProcess:
        """Make a new process with this one's past; spawning is an event here."""
        with self._lock:
            self._instance, child = self._instance.duplicate()
            return AutonomousProcess(child)
