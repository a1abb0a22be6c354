"""The local message log LML of a gateway: what a message that arrives from the subgroup may have behind it.

Source: HCG, sections 3.2 and 3.3, with VT_j taken over the logged messages that may precede instead of over all of
them.
"""

from __future__ import annotations

from whence.clocks.group.rules import Bounds, Sent, literal_level, may_precede
from whence.clocks.group.stamps import GlobalStamp, Known, extend


class MessageLog:
    """What the gateway received from each member and sent into the subgroup itself, bounded.

    The messages of one source may precede a later message as a *prefix*: along a source's sends LT, RT and (for what
    the gateway sent) Ts only grow, and `may_precede` asks each of them to be small. So each entry keeps what is
    behind it and all earlier ones of its source, and the newest entry that may precede speaks for the whole prefix.

    At most `limit` entries a source are kept. What is dropped counts as behind every later message: that can order a
    message needlessly after it, and never leaves out a cause.
    """

    __slots__ = ("_bounds", "_entries", "_floor", "_limit")

    def __init__(self, bounds: Bounds, limit: int) -> None:
        self._bounds = bounds
        self._limit = limit
        self._entries: dict[str, list[tuple[Sent, Known]]] = {}
        self._floor: dict[str, Known] = {}

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def add(self, sent: Sent, known: Known) -> None:
        """Log the next message of its source, with what is at or behind it."""
        entries = self._entries.setdefault(sent.sender, [])
        at_or_behind = dict(entries[-1][1]) if entries else {}
        extend(at_or_behind, known)
        entries.append((sent, at_or_behind))
        if len(entries) > self._limit:
            self._floor[sent.sender] = entries.pop(0)[1]

    def behind(self, sent: Sent) -> dict[str, tuple[int, int]]:
        """The join of all that may precede a message."""
        behind: dict[str, tuple[int, int]] = {}
        for source, entries in self._entries.items():
            for logged, known in reversed(entries):
                if may_precede(logged, sent, self._bounds):
                    extend(behind, known)
                    break
            else:
                extend(behind, self._floor.get(source, {}))
        return behind

    def last_lt(self, source: str) -> int:
        """LT of the last message of a source, 0 when there was none."""
        entries = self._entries.get(source)
        return entries[-1][0].lt if entries else 0

    def holds(self, sent: Sent) -> bool:
        """Whether this very send is (still) in the log."""
        return any(logged.lt == sent.lt and logged.rt == sent.rt for logged, _ in self._entries.get(sent.sender, ()))


class LiteralVector:
    """The vector VT of a gateway by the rules as printed (sections 2, 3.2 and 3.3): unsound, kept to be measured."""

    __slots__ = ("_delta", "_subgroup", "_vt", "last_ts")

    def __init__(self, subgroup: str, delta: int) -> None:
        self._subgroup = subgroup
        self._delta = delta
        self._vt = {subgroup: 0}
        self.last_ts: int | None = None
        """When the gateway last sent into the subgroup."""

    def relayed(self, stamp: GlobalStamp, ts: int) -> None:
        """A global message was received, and sent into the subgroup at `ts`."""
        self.last_ts = ts
        for name, level in stamp.vt.items():
            if name != self._subgroup:
                self._vt[name] = max(level, self._vt.get(name, 0))

    def received(self, tr: int, last_ts: int | None) -> dict[str, int]:
        """VT of a local message received at `tr`, when `last_ts` was what it says."""
        self._vt[self._subgroup] = literal_level(self._vt[self._subgroup], last_ts, tr, delta=self._delta)
        return dict(self._vt)
