"""The local message log LML of a gateway: the possible causes of a message from the subgroup.

Source: HCG, sections 3.2 and 3.3; here VT_j is taken over the logged messages that may precede, not over all of them.
"""

from __future__ import annotations

from whence.clocks.group.rules import Bounds, Sent, literal_level, may_precede
from whence.clocks.group.stamps import GlobalStamp, Known, extend


class MessageLog:
    """The messages that the gateway received from each member and sent into the subgroup itself, bounded.

    The messages of one source that may precede a later message are a *prefix* of its messages: along a source's sends
    LT, RT and (for the gateway's own) Ts only grow, and `may_precede` asks each of them to be small. So each entry has
    the causes of itself and of all earlier ones of its source, and the newest entry that may precede stands for the
    whole prefix.

    At most `limit` entries of each source are kept. Dropped entries count as causes of every later message: that can
    order a message needlessly after them, and never leaves out a cause.
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
        """Log the next message of its source; `known` are its causes and itself."""
        entries = self._entries.setdefault(sent.sender, [])
        joined = dict(entries[-1][1]) if entries else {}
        extend(joined, known)
        entries.append((sent, joined))
        if len(entries) > self._limit:
            self._floor[sent.sender] = entries.pop(0)[1]

    def behind(self, sent: Sent) -> dict[str, tuple[int, int]]:
        """Join the causes of all logged messages that may precede this one, and those messages."""
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
        """Return LT of the last message of a source, 0 without one."""
        entries = self._entries.get(source)
        return entries[-1][0].lt if entries else 0

    def holds(self, sent: Sent) -> bool:
        """Tell whether this very send is (still) in the log."""
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
        """Merge a global message that the gateway sent into the subgroup at `ts`."""
        self.last_ts = ts
        for name, level in stamp.vt.items():
            if name != self._subgroup:
                self._vt[name] = max(level, self._vt.get(name, 0))

    def received(self, tr: int, last_ts: int | None) -> dict[str, int]:
        """Give VT of a local message received at `tr`; `last_ts` is when the gateway had last sent."""
        self._vt[self._subgroup] = literal_level(self._vt[self._subgroup], last_ts, tr, delta=self._delta)
        return dict(self._vt)
