"""GoVector's messages and its log, against another MessagePack library and against the truth about what precedes what."""

import json
import subprocess
import sys
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgpack import ExtType, Timestamp

from ledto.clocks import ClockError, Relation, StampError, VectorClock, VectorStamp, relation
from ledto.interop.govector import MOST_DEPTH, GoVector, GoVectorMessage
from ledto.sources.shiviz.source import ShiViz
from tests.clocks.test_decoders import EXAMPLES, INPUTS_EACH, mutated
from tests.sources.reading import rows

INTEGERS = st.integers(-(2**63), 2**64 - 1)
SCALARS = (
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False) | st.text(max_size=40) | st.binary(max_size=300)
)
VALUES = st.recursive(
    SCALARS | st.builds(ExtType, st.integers(0, 127), st.binary(max_size=20)),
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.dictionaries(st.text(max_size=6) | INTEGERS | st.binary(max_size=4), inner, max_size=20)
    ),
    max_leaves=20,
)


def theirs(value):
    """The same value for the library that ours is compared with, which is not the one that it uses."""
    if isinstance(value, ExtType):
        return msgspec.msgpack.Ext(*value)
    if isinstance(value, list):
        return [theirs(each) for each in value]
    if isinstance(value, dict):
        return {key: theirs(each) for key, each in value.items()}
    return value


START, END = b"\xa1a", b"\x81\xa1a\x01"
"""The sender and the clock of a message, around its payload."""


def pack(value):
    data = GoVectorMessage("a", value, VectorStamp({"a": 1})).to_bytes()
    assert data.startswith(START)
    assert data.endswith(END)
    return data.removeprefix(START).removesuffix(END)


def read(data):
    return GoVectorMessage.from_bytes(START + data + END).payload


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_values_are_spelled_as_another_library_spells_them(value):
    """A payload would arrive as something else, or not at all."""
    data = pack(value)
    assert data == msgspec.msgpack.encode(theirs(value))
    back = read(data)
    assert back == value
    assert pack(back) == data, "types are kept: True is not 1, and 1 is not 1.0"


@pytest.mark.parametrize("size", [0, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_every_length_has_its_spelling(size):
    """A message that is one byte longer than the last one that worked would be unreadable to the peer."""
    for value in ("x" * size, b"x" * size, [None] * size, dict.fromkeys(range(size)), ExtType(5, b"x" * size)):
        assert pack(value) == msgspec.msgpack.encode(theirs(value))
        assert read(pack(value)) == value


LONG_SPELLINGS = {
    "uint64": (b"\xcf" + bytes(7) + b"\x05", 5),
    "int64": (b"\xd3" + bytes(7) + b"\x05", 5),
    "int8": (b"\xd0\xfb", -5),
    "float32": (b"\xca\x3f\x00\x00\x00", 0.5),
    "str8": (b"\xd9\x01a", "a"),
    "str32": (b"\xdb\x00\x00\x00\x01a", "a"),
    "array32": (b"\xdd\x00\x00\x00\x01\x01", [1]),
    "map16": (b"\xde\x00\x01\xa1a\x01", {"a": 1}),
}


@pytest.mark.parametrize("spelling", LONG_SPELLINGS)
def test_longer_spellings_are_read(spelling):
    """Go writes a uint64 in nine bytes, whatever its value: a reader of shortest forms would refuse every token."""
    data, value = LONG_SPELLINGS[spelling]
    assert read(data) == value == msgspec.msgpack.decode(data)
    message = GoVectorMessage.from_bytes(b"\xa1a" + data + b"\xdf\x00\x00\x00\x01\xd9\x01a\xcf" + bytes(7) + b"\x02")
    assert message == ("a", value, VectorStamp({"a": 2}))


def test_a_time_is_read():
    """Times that Go writes would be refused, or arrive as bytes."""
    assert read(b"\xd6\xff\x00\x00\x00\x07") == Timestamp(7)
    assert pack(Timestamp(7)) == b"\xd6\xff\x00\x00\x00\x07"


def test_a_message_is_three_values_in_a_row():
    """The bytes of the module's own example; GoVector reads nothing else."""
    shop = GoVector("shop")
    shop.clock.local()
    data = shop.prepare_send(7)
    assert data.hex(" ") == "a4 73 68 6f 70 07 81 a4 73 68 6f 70 02"
    assert msgspec.msgpack.decode(b"\x93" + data) == ["shop", 7, {"shop": 2}], "the same as one array"


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_clocks_that_talk_so_tell_the_truth(seed):
    """Stamps that went through GoVector's format would say BEFORE where nothing was, or miss a cause."""
    random = Random(seed)
    names = ["a", "b", "žluťoučký", "x" * 255]
    peers = {name: GoVector(name) for name in names}
    past = {name: frozenset() for name in names}
    wire, events = [], []
    for number in range(30):
        name = random.choice(names)
        peer = peers[name]
        if wire and random.random() < 0.5:
            data, payload, known = random.choice(wire)
            assert peer.unpack_receive(data) == payload
            past[name] |= known
        elif random.random() < 0.7:
            data = peer.prepare_send({"number": number})
            wire.append((data, {"number": number}, past[name] | {number}))
        else:
            peer.clock.local()
        past[name] |= {number}
        events.append((peer.clock.stamp, number, past[name]))
    for stamp, number, known in events:
        for other, other_number, other_known in events:
            if number != other_number:
                expected = (
                    Relation.BEFORE
                    if number in other_known
                    else Relation.AFTER
                    if other_number in known
                    else Relation.CONCURRENT
                )
                assert relation(stamp, other) is expected


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32), payload=VALUES)
def test_bytes_are_refused_whole_or_read_as_what_they_say(seed, payload):
    """A hostile or broken sender would crash the receiver, or move its clock by half a message."""
    random = Random(seed)
    sender, receiver = (GoVector(name) for name in random.sample(["a", "bb", "žluť", "x" * 255], 2))
    for _ in range(random.randint(0, 3)):
        receiver.unpack_receive(sender.prepare_send(None))
        sender.unpack_receive(receiver.prepare_send(None))
    data = sender.prepare_send(payload)
    for i in range(INPUTS_EACH):
        tried = mutated(random, data) if i % 2 else data[: i % 3] + random.randbytes(random.randint(0, 40))
        before = receiver.clock.stamp
        try:
            receiver.unpack_receive(tried)
        except (StampError, ClockError):
            assert receiver.clock.stamp == before
            continue
        message = GoVectorMessage.from_bytes(tried)
        assert receiver.clock.known(message.process) >= message.stamp[message.process]
        assert receiver.clock.count == before.known(receiver.clock.process) + 1
        again = GoVectorMessage.from_bytes(message.to_bytes())
        assert (again.process, again.stamp) == (message.process, message.stamp)
        assert repr(again.payload) == repr(message.payload), "NaN does not equal itself"


A, B = b"\xa1a", b"\xa1b"
BAD = {
    "empty": b"",
    "an id that is no text": b"\x01\xc0\x81" + A + b"\x01",
    "an id as bytes": b"\xc4\x01a\xc0\x81" + A + b"\x01",
    "no clock": A + b"\xc0",
    "a clock that is no map": A + b"\xc0\x91\x01",
    "a clock without its sender": A + b"\xc0\x81" + B + b"\x01",
    "a sender that counts zero": A + b"\xc0\x81" + A + b"\x00",
    "more bytes": A + b"\xc0\x81" + A + b"\x01\xc0",
    "a process twice": A + b"\xc0\x82" + A + b"\x01" + A + b"\x02",
    "a negative counter": A + b"\xc0\x81" + A + b"\xff",
    "a counter beyond 63 bits": A + b"\xc0\x81" + A + b"\xcf" + b"\xff" * 8,
    "a counter that is a float": A + b"\xc0\x81" + A + b"\xcb\x3f\xf0" + bytes(6),
    "a counter that is true": A + b"\xc0\x81" + A + b"\xc3",
    "an entry whose name is a number": A + b"\xc0\x82" + A + b"\x01\x07\x01",
    "an entry without a name": A + b"\xc0\x82" + A + b"\x01\xa0\x01",
    "text that is not UTF-8": A + b"\xa1\xff\x81" + A + b"\x01",
    "the byte that begins nothing": A + b"\xc1\x81" + A + b"\x01",
    "billions of items": A + b"\xdd\xff\xff\xff\xff",
    "billions of entries": A + b"\xc0\xdf\xff\xff\xff\xff" + A + b"\x01",
    "billions of bytes": A + b"\xc6\xff\xff\xff\xff",
    "a map as a key": A + b"\x81\x80\x01\x81" + A + b"\x01",
    "too deep": A + b"\x91" * (MOST_DEPTH + 1) + b"\xc0\x81" + A + b"\x01",
    "deep without end": A + b"\x91" * 500_000,
    "deep, and each with as many items as the message has bytes": A
    + b"\xdd\x00\x0f\xff\x00" * 500
    + bytes(2**20 - 2_502),
    "a time that is none": A + b"\xd4\xff\x00\x81" + A + b"\x01",
    "too long": A + pack(b"x" * 2**20) + b"\x81" + A + b"\x01",
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_message_is_refused(name):
    """Each would move the receiver's clock by something that its sender never said."""
    receiver = GoVector("b")
    with pytest.raises(StampError):
        receiver.unpack_receive(BAD[name])
    assert receiver.clock.count == 0


def test_without_msgpack_the_error_says_what_to_install():
    """An application that has only the base install would be left with the name of a package that it never heard of."""
    code = "import sys; sys.modules['msgpack'] = None; import ledto.interop"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install 'ledto[interop]'" in done.stderr.splitlines()[-1]


def nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "payload",
    [2**64, -(2**63) - 1, (1,), {1.5: 2}, {None: 1}, "\ud800", object(), nested(MOST_DEPTH + 1), b"x" * 2**20],
)
def test_a_payload_that_cannot_be_sent_is_no_event(payload):
    """The log would have a hole where an event is counted that never happened."""
    sender = GoVector("a")
    with pytest.raises(StampError):
        sender.prepare_send(payload)
    assert sender.clock.count == 0
    assert GoVector("b").unpack_receive(sender.prepare_send(nested(MOST_DEPTH))) == nested(MOST_DEPTH)


def test_what_the_format_cannot_say_is_refused():
    """Wrong relations, with nothing to show for it: a restart under an old id, and causes that are known to be missing."""
    old, peer, restarted = GoVector("a"), GoVector("b"), GoVector("a")
    peer.unpack_receive(old.prepare_send("hello"))
    with pytest.raises(ClockError, match="restarted"):
        restarted.unpack_receive(peer.prepare_send("you again"))
    assert restarted.clock.count == 0

    lenient = VectorClock("c", accept_unstamped=True)
    wrapped = GoVector("c", clock=lenient)
    lenient.receive(None)
    with pytest.raises(ClockError, match="unstamped"):
        wrapped.prepare_send(None)
    assert lenient.count == 1
    with pytest.raises(ClockError, match="belongs to"):
        GoVector("d", clock=lenient)


def test_the_log_is_what_govector_writes_and_shiviz_reads():
    """A log that other tools misread: the clock or the text would be another one."""
    a, b = GoVector("a"), GoVector('quo"te\\d')
    b.unpack_receive(a.prepare_send(None))
    assert a.log_line("asked") == 'a {"a":1}\nasked'
    assert b.log_line("INFO-heard, {so} far") == 'quo"te\\d {"a":1, "quo\\"te\\\\d":1}\nINFO-heard, {so} far'
    text = "\n".join((a.log_line("asked"), b.log_line("INFO-heard, {so} far"))) + "\n"
    assert [(row["process"], row["seq"], row.get("receives"), row["name"]) for row in rows(ShiViz(), text)] == [
        ("a", 1, None, "asked"),
        ('quo"te\\d', 1, "a:1", "INFO-heard, {so} far"),
    ]
    assert json.loads(b.log_line("x").split(" ", 1)[1].split("\n")[0]) == dict(b.clock.stamp)


@pytest.mark.parametrize(
    ("process", "event"), [("a b", "x"), ("a\tb", "x"), ("a\u2003b", "x"), ("a", "x\ny"), ("a", "x\n")]
)
def test_a_log_line_that_would_be_misread_is_refused(process, event):
    """Two events out of one, or an event of another host."""
    peer = GoVector(process)
    with pytest.raises(ClockError, match="no event"):
        peer.log_line("too early")
    peer.clock.local()
    with pytest.raises(ClockError, match="log"):
        peer.log_line(event)
