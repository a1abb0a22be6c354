"""Random tables in the format ``ledto``: every type that a column may have, with values that are good, odd and wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

PROCESSES = ["a", "b", "shop", "ü ber", "x,y", 'q"q', "a:1"]
TEXTS = ["", "m1", "m2", "späße", 'quo"te', "back\\slash", "line\nend", "nul\0", "7"]
KINDS = ["local", "send", "receive", "local", "send", "receive", "sent", ""]
INTEGERS = [0, 1, 2, 7, -1, 100]
FACTORS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

Values = Callable[[Random], Any]


def text_type(random: Random) -> pa.DataType:
    return random.choice([pa.string(), pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])


def integer_type(random: Random) -> pa.DataType:
    return random.choice([pa.int64(), pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.uint32(), pa.uint16()])


def drawn(random: Random, kind: pa.DataType, rows: int, values: Values, nulls: float) -> pa.Array:
    found = [None if random.random() < nulls else values(random) for _ in range(rows)]
    if pa.types.is_unsigned_integer(kind):
        found = [None if value is None else abs(value) for value in found]
    if pa.types.is_dictionary(kind):
        return pa.array(found, kind.value_type).dictionary_encode()
    return pa.array(found, kind)


def texts(random: Random, rows: int, pool: list[str], nulls: float) -> pa.Array:
    if random.random() < 0.03:
        return pa.nulls(rows)
    return drawn(random, text_type(random), rows, lambda r: r.choice(pool), nulls)


def keys(random: Random, rows: int, nulls: float, *, lists: bool) -> pa.Array:
    text = random.random() < 0.6
    kind = text_type(random) if text else integer_type(random)
    one: Values = lambda r: r.choice(TEXTS if text and r.random() < 0.3 else PROCESSES if text else INTEGERS)  # noqa: E731
    if not lists or random.random() < 0.5:
        return drawn(random, kind, rows, one, nulls)
    if pa.types.is_dictionary(kind) or pa.types.is_unsigned_integer(kind):
        kind = pa.string() if text else pa.int64()
    many: Values = lambda r: [None if r.random() < 0.05 else one(r) for _ in range(r.randrange(4))]  # noqa: E731
    outer = random.choice([pa.list_, pa.large_list])
    return drawn(random, outer(kind), rows, many, nulls)


def lines(random: Random, rows: int, few: float, many: float) -> dict[str, pa.Array]:
    """Columns that tell lines apart; parents without lines, which are bad, are seldom."""
    pool = [*PROCESSES, *TEXTS] if random.random() < 0.3 else PROCESSES
    found = {} if random.random() < 0.2 else {"line": texts(random, rows, pool, few)}
    if random.random() < (0.5 if found else 0.1):
        found["line_parent"] = texts(random, rows, pool, many)
    if random.random() < (0.3 if found else 0.05):
        found["line_phase"] = texts(random, rows, ["first"] if random.random() < 0.7 else ["first", "start", ""], many)
    if random.random() < 0.5:
        found["line_joins"] = texts(random, rows, pool, many)
    elif random.random() < 0.5:
        kind = random.choice([pa.list_, pa.large_list])(pa.string())
        several: Values = lambda r: [r.choice(pool) for _ in range(r.randrange(4))]  # noqa: E731
        found["line_joins"] = drawn(random, kind, rows, several, many)
    return found


def times(random: Random, rows: int, nulls: float) -> pa.Array:
    if random.random() < 0.4:
        return drawn(random, integer_type(random), rows, lambda r: r.choice(INTEGERS), nulls)
    unit = random.choice(["ms", "us", "ns"])
    zone = random.choice([None, "UTC", "Asia/Tokyo"])
    moments = [0, -1, 1_714_564_800 * FACTORS[unit] + 123, -1_714_564_800 * FACTORS[unit] - 1]
    if unit != "ns":
        moments += [10_000 * 31_556_952 * FACTORS[unit], 2**62, -(2**62)]
    return drawn(random, pa.timestamp(unit, zone), rows, lambda r: r.choice(moments), nulls)


def a_stamp(random: Random) -> Any:
    counters = {process: random.randrange(4) for process in random.sample(PROCESSES, random.randrange(5))}
    return random.choice(
        [
            {"clock": "vector", "counters": counters},
            {"clock": "vector", "counters": counters},
            {"clock": "vector", "counters": counters},
            {"clock": "lamport", "time": 3, "process": "a"},
            {"clock": "vector"},
            {"clock": "vector", "counters": {"a": "1"}},
            {"counters": counters},
            [1],
            {},
        ]
    )


def stamps(random: Random, rows: int, nulls: float) -> pa.Array:
    if random.random() < 0.3:
        kind = pa.struct([("clock", pa.string()), ("counters", pa.map_(pa.string(), pa.int64()))])

        def struct(r: Random) -> dict[str, Any]:
            counters = [(process, r.randrange(3)) for process in r.sample(PROCESSES, 3)]
            return {"clock": r.choice(["vector", "vector", None]), "counters": counters}

        return drawn(random, kind, rows, struct, nulls)

    def text(r: Random) -> str:
        if r.random() < 0.1:
            return r.choice(["", "oops", '{"clock":', '"vector"', "{}{}"])
        separators = r.choice([(",", ":"), (", ", ": ")])
        return json.dumps(a_stamp(r), separators=separators, ensure_ascii=r.random() < 0.5)

    return drawn(random, text_type(random), rows, text, nulls)


def attributes(random: Random, rows: int, nulls: float) -> pa.Array:
    which = random.randrange(3)
    if which == 0:
        pool = ['{"x":1}', "{}", '{"a": [1, {"b": null}], "c": "é"}', "oops", "[1]", "", '{"x":']
        return drawn(random, text_type(random), rows, lambda r: r.choice(pool), nulls)
    if which == 1:
        item = random.choice([pa.string(), pa.int64(), pa.float64()])
        pool_of: dict[pa.DataType, list[Any]] = {pa.string(): TEXTS, pa.int64(): INTEGERS, pa.float64(): [0.5, 1.0]}
        values: Values = lambda r: [(k, r.choice([None, *pool_of[item]])) for k in r.sample(TEXTS, r.randrange(3))]  # noqa: E731
        return drawn(random, pa.map_(pa.string(), item), rows, values, nulls)
    return drawn(random, STRUCT, rows, a_struct, nulls)


STRUCT = pa.struct(
    [
        ("count", pa.int32()),
        ("ratio", pa.float64()),
        ("label", pa.string()),
        ("flag", pa.bool_()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("x", pa.int64()), ('a "b"', pa.string())])),
        ("by", pa.map_(pa.string(), pa.int64())),
    ]
)


def a_struct(random: Random) -> dict[str, Any]:
    whole = {
        "count": random.choice(INTEGERS),
        "ratio": random.choice([0.1, 1.0, -2.5, 1e300, 1e-9, float("nan"), float("inf"), -float("inf"), 123456789.0]),
        "label": random.choice(TEXTS),
        "flag": random.random() < 0.5,
        "price": Decimal(random.choice(["1.50", "-0.01", "12345678.90"])),
        "day": date(2024, 5, random.randrange(1, 30)),
        "raw": random.choice([b"", b"\xff\0", b"abc"]),
        "tags": [random.choice([None, *TEXTS]) for _ in range(random.randrange(3))],
        "inner": {"x": random.choice([None, 1]), 'a "b"': random.choice([None, "y"])},
        "by": [(key, random.choice([None, 1])) for key in random.sample(TEXTS, random.randrange(3))],
    }
    return {name: value for name, value in whole.items() if random.random() < 0.7}


NATIVE: dict[str, tuple[pa.DataType, Values]] = {
    "latency": (pa.float64(), lambda r: r.random()),
    "small": (pa.uint8(), lambda r: r.randrange(256)),
    "large": (pa.uint64(), lambda r: r.choice([0, 2**64 - 1])),
    "price": (pa.decimal128(9, 3), lambda r: Decimal(r.randrange(10**6)) / 1000),
    "day": (pa.date32(), lambda r: date(2024, 5, r.randrange(1, 30))),
    "raw": (pa.binary(), lambda r: r.choice([b"", b"\xff\0"])),
    "label": (pa.dictionary(pa.int32(), pa.string()), lambda r: r.choice(TEXTS)),
    "when": (pa.timestamp("us", "Asia/Tokyo"), lambda r: datetime(2024, 5, 1, 12, 0, 0, r.randrange(10**6), UTC)),
    "local_time": (pa.timestamp("ms"), lambda r: r.randrange(10**12)),
    "fine": (pa.timestamp("ns"), lambda r: r.randrange(10**18)),
    "tags": (pa.list_(pa.string()), lambda r: [r.choice(["x", "y"]) for _ in range(r.randrange(3))]),
    "by": (pa.map_(pa.string(), pa.int64()), lambda r: [(k, r.randrange(9)) for k in r.sample(PROCESSES, 2)]),
    "inner": (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float32()))]), lambda r: {"x": 1, "y": [0.5]}),
    "file": (pa.string(), lambda r: r.choice(TEXTS)),
    "clock_name": (pa.int64(), lambda r: r.randrange(9)),
    "line": (pa.int32(), lambda r: r.randrange(9)),
    "a b.c": (pa.bool_(), lambda r: r.random() < 0.5),
}


def table(random: Random, rows: int = 40) -> pa.Table:
    """A random table that can be mapped."""
    few, many = random.choice([0.02, 0.1]), random.choice([0.3, 0.6, 0.9])
    found: dict[str, pa.Array] = {
        "process": texts(random, rows, PROCESSES if random.random() < 0.7 else [*PROCESSES, *TEXTS], few)
    }
    makers: dict[str, Callable[[], pa.Array]] = {
        "computation": lambda: texts(random, rows, TEXTS, many),
        "seq": lambda: drawn(random, integer_type(random), rows, lambda r: r.choice(INTEGERS), few),
        "time": lambda: times(random, rows, few),
        "arrival": lambda: times(random, rows, many),
        "kind": lambda: texts(random, rows, KINDS if random.random() < 0.3 else KINDS[:6], few),
        "message": lambda: keys(random, rows, many, lists=True),
        "sends": lambda: keys(random, rows, many, lists=False),
        "receives": lambda: keys(random, rows, many, lists=True),
        "id": lambda: keys(random, rows, many, lists=False),
        "name": lambda: texts(random, rows, TEXTS, few),
        "stamp": lambda: stamps(random, rows, many),
        "attributes": lambda: attributes(random, rows, many),
        "clock_name": lambda: texts(random, rows, TEXTS, many),
    }
    for name, make in makers.items():
        if random.random() < 0.5:
            found[name] = make()
    if random.random() < 0.4:
        found |= lines(random, rows, few, many)
    for name, (kind, values) in NATIVE.items():
        if random.random() < 0.2 and name not in found:
            found[name] = drawn(random, kind, rows, values, 0.2)
    if not {"seq", "time", "stamp"} & {*found}:
        found["seq"] = makers["seq"]()
    names = list(found)
    random.shuffle(names)
    return pa.table({name: found[name] for name in names})
