"""Processes and messages expressed in autonomous causality (paper, section 4): a send duplicates, a receive combines."""

from __future__ import annotations

from whence.clocks.errors import Retired
from whence.clocks.guarded import Guarded
from whence.clocks.instances.instance import Instance
from whence.clocks.instances.stamp import AutonomousStamp


class AutonomousMessage:
    """A message under way: an instance that can only be combined. It is received once; a second receipt is refused."""

    def __init__(self, instance: Instance) -> None:
        """Made by `AutonomousProcess.send`, or from bytes with `from_bytes`."""
        self._instance = instance

    @property
    def stamp(self) -> AutonomousStamp:
        """The stamp of the send."""
        return self._instance.stamp

    def to_bytes(self) -> bytes:
        """The message for the wire; what is left here can no longer be received."""
        return self._instance.hand_over()

    @classmethod
    def from_bytes(cls, data: bytes) -> AutonomousMessage:
        """The message from the wire, or `StampError`."""
        return cls(Instance.take_over(data))


class AutonomousProcess(Guarded):
    """A process that stamps its events by an instance of its own. Thread-safe."""

    def __init__(self, instance: Instance) -> None:
        """`instance` acts for the process from now on: give it to no one else."""
        if not isinstance(instance, Instance):
            raise TypeError(
                f"an AutonomousProcess acts through an Instance, not {type(instance).__name__}; see start()"
            )
        super().__init__()
        self._instance = instance

    @classmethod
    def start(cls, *names: str) -> dict[str, AutonomousProcess]:
        """Processes of one computation, each with a share of its root."""
        processes, rest = {}, Instance.root()
        for name in names[:-1]:
            first, rest = rest.duplicate()
            processes[name] = cls(first)
        return processes | {name: cls(rest) for name in names[-1:]}

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
        """Stamp a receipt. A message that was received before raises `Retired`, and is no event."""
        with self._lock:
            if message._instance.retired:
                raise Retired("this message was received, or put on the wire, before")
            self._instance = self._instance.combine(message._instance)
            return self._instance.stamp

    def spawn(self) -> AutonomousProcess:
        """A new process with this one's past; spawning is an event here."""
        with self._lock:
            self._instance, child = self._instance.duplicate()
            return AutonomousProcess(child)
