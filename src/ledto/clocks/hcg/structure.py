"""HCG: a large group made of subgroups, each with clocks of its own kind.

Inside a subgroup (a local network) processes stamp with a physical clock RT and a linear clock LT, O(1) bytes for each
message. One gateway of each subgroup talks to the other gateways, over a wide-area network, under a vector VT with one
element for each *subgroup*, not for each process. `Group` is the structure that all agree on; `GroupMember` and
`Gateway` are its processes. They have no network: the caller sends the stamps that they return:

    >>> from ledto.clocks import Gateway, Group, GroupMember, Subgroup
    >>> near = Subgroup("gate-a", ("p1", "p2"), delta_ns=1_000, max_delay_ns=None)
    >>> far = Subgroup("gate-b", ("q1", "q2"), delta_ns=1_000, max_delay_ns=None)
    >>> group = Group({"A": near, "B": far}, tau_ns=10)
    >>> local = GroupMember("p1", group, physical=lambda: 1_000_000).send()
    >>> [forwarded] = Gateway("A", group, physical=lambda: 1_002_000).receive_local(local)
    >>> [relay] = Gateway("B", group, physical=lambda: 1_003_000).receive_global(forwarded.stamp)
    >>> GroupMember("q1", group, physical=lambda: 1_005_000).receive(relay.stamp)
    B/q1@2 at 1005000ns

`local` goes to the members of A and to A's gateway, `forwarded.stamp` to the other gateways, and `relay.stamp` to the
members of B. A gateway may hold a message, so it gives lists.

**Happened-before of messages.** ``m1 -> m2`` when the process that sent m2 had sent or received m1, or a message after
it, before. A gateway that passes a message on adds nothing to it.

**Guarantee** (`rules="sound"`). ``m1 -> m2`` implies ``may_precede`` of their local stamps, for messages of one
subgroup, and of their global stamps, for messages that gateways forwarded. So *surely concurrent* is certain. The
converse does not hold: a smaller stamp is not a cause.

HAZARD: the guarantee needs bounds that the user states: `tau_ns`, `delta_ns` and `max_delay_ns`. A reading that proves
one of them wrong raises `ClockDrift` and changes nothing. A wrong bound that no reading contradicts gives wrong stamps.
HAZARD: messages from one subgroup to another must go through the two gateways.

`rules="literal"` assigns VT, and compares local stamps, by the paper's rules as printed. They break the guarantee (see
`ledto.clocks.hcg.rules`) and exist to be measured. Source: Kawanami, Enokido & Takizawa, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from ledto.clocks.hcg.rules import NetworkBounds, Rules, Skew, largest_skew, literal_precedes
from ledto.clocks.hcg.stamps import LocalStamp
from ledto.clocks.wire import check_name
from ledto.errors import ClockError


@dataclass(frozen=True, slots=True)
class Subgroup:
    """One local network: its processes, and how long its messages take.

    The delays hold by the gateway's `elapsed` clock, and by the clock behind RT: any physical clock of the subgroup if
    tau bounds pairs of them, UTC if tau bounds their distance from it.
    """

    gateway: str
    members: tuple[str, ...]
    delta_ns: int
    """The least time that a message inside the subgroup takes (the paper's delta_j); 0 is always true."""
    max_delay_ns: int | None
    """The most time that a message to the gateway takes: the gateway holds it until its causes must have arrived.

    None: the network itself brings messages to the gateway in causal order, and nothing is held.
    """

    def __post_init__(self) -> None:
        if type(self.members) is not tuple:
            raise ValueError(f"members is a tuple of names, not {self.members!r:.60}")
        for process in self.processes():
            check_name(process)
        if not self.members:
            raise ValueError(f"the subgroup of gateway {self.gateway} needs a member")
        if self.delta_ns < 0:
            raise ValueError(f"delta_ns is 0 or more, not {self.delta_ns}")
        if self.max_delay_ns is not None and self.max_delay_ns < self.delta_ns:
            raise ValueError(f"max_delay_ns {self.max_delay_ns} is less than delta_ns {self.delta_ns}")

    def processes(self) -> Iterator[str]:
        """Yield the gateway and the members."""
        yield self.gateway
        yield from self.members


class Group:
    """The structure of a group and its bounds: fixed, and the same at every process. Safe to share between threads."""

    __slots__ = ("_home", "rules", "skew", "subgroups", "tau_ns")

    def __init__(
        self, subgroups: Mapping[str, Subgroup], *, tau_ns: int, skew: Skew = "pairwise", rules: Rules = "sound"
    ) -> None:
        """State the structure.

        `tau_ns` bounds the difference of any two physical clocks of a subgroup at one moment (`skew="pairwise"`; a
        clock must then never go back), or the difference of each clock from UTC (`skew="utc"`; then two can be 2 tau
        apart). Clocks of different subgroups need not agree.
        """
        if not subgroups:
            raise ValueError("a group needs a subgroup")
        if tau_ns < 0:
            raise ValueError(f"tau_ns is 0 or more, not {tau_ns}")
        if skew not in get_args(Skew):
            raise ValueError(f"skew is one of {', '.join(get_args(Skew))}, not {skew!r}")
        if rules not in get_args(Rules):
            raise ValueError(f"rules is one of {', '.join(get_args(Rules))}, not {rules!r}")
        self._home: dict[str, str] = {}
        for name, subgroup in subgroups.items():
            check_name(name)
            for process in subgroup.processes():
                if process in self._home:
                    raise ValueError(f"process {process} is in the group twice: in {self._home[process]} and in {name}")
                self._home[process] = name
        self.subgroups: Mapping[str, Subgroup] = MappingProxyType(dict(subgroups))
        self.tau_ns = tau_ns
        self.skew: Skew = skew
        self.rules: Rules = rules

    def subgroup(self, name: str) -> Subgroup:
        """Return the subgroup of this name; raises `ClockError`."""
        try:
            return self.subgroups[name]
        except KeyError:
            raise ClockError(f"the group has no subgroup {name}; it has {', '.join(sorted(self.subgroups))}") from None

    def home(self, process: str) -> str:
        """Return the name of the subgroup of a process; raises `ClockError`."""
        try:
            return self._home[process]
        except KeyError:
            raise ClockError(
                f"{process} is not in any subgroup of the group: add it to the Group of every process"
            ) from None

    def bounds(self, subgroup: str) -> NetworkBounds:
        """Return the bounds that hold in a subgroup."""
        return NetworkBounds(largest_skew(self.tau_ns, self.skew), self.subgroup(subgroup).delta_ns)

    def may_precede(self, a: LocalStamp, b: LocalStamp) -> bool:
        """Tell whether event `a` can have happened before event `b` of the same subgroup, by the rules in force."""
        if self.rules == "literal" and a.subgroup == b.subgroup:
            return literal_precedes(a.sent(), b.sent(), tau=self.tau_ns, delta=self.subgroup(a.subgroup).delta_ns)
        return a.may_precede(b, self.bounds(a.subgroup))

    def surely_concurrent(self, a: LocalStamp, b: LocalStamp) -> bool:
        """Tell whether neither event of the same subgroup can have happened before the other, by the rules in force."""
        return a != b and not self.may_precede(a, b) and not self.may_precede(b, a)
