"""What is written without pickle is read back as it was, whatever the names and numbers in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from random import Random
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pytest

from ledto.causality.sparse_vectors import Vectors
from ledto.causality.vector_clocks import Scan
from ledto.history import codec, layout
from ledto.history.clocks.measure import SegmentClocks
from ledto.history.codec import NotDecoded, decode, encode
from ledto.live.files import CommitState, TailRows
from ledto.live.state import ClosedState
from ledto.live.terms import LiveTerms

NAMES = (
    "",
    " ",
    "a",
    "é",
    "e\u0301",
    "\u202ename",
    "\ufeff",
    "\ud7ff",
    "\U0010ffff",
    "\x00",
    "\n",
    "../x",
    "a" * 70_000,
)
"""Names that Arrow can hold. Lone surrogates are not among them, so they cannot get into a history."""
NUMBERS = (0, 1, -1, 127, 128, 1 << 31, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63))


def drawn(kind: Any, random: Random) -> Any:
    """A value of a type, as its annotation tells it."""
    origin, args = get_origin(kind), get_args(kind)
    made: dict[Any, Callable[[], Any]] = {
        str: lambda: random.choice(NAMES),
        int: lambda: random.choice(NUMBERS),
        bool: lambda: random.random() < 0.5,
        NoneType: lambda: None,
        LiveTerms: lambda: LiveTerms(
            ("exact", "cbd:0.5"), eps=random.choice(NUMBERS[5:8]), phi=random.choice((None, "0.5"))
        ),
        Scan: lambda: a_scan(random),
        pa.Table: lambda: pa.Table.from_pylist(
            [{each.name: drawn_column(each, random) for each in layout.QUARANTINE} for _ in range(random.randrange(3))],
            layout.QUARANTINE,
        ),
    }
    if kind in made:
        return made[kind]()
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(*(drawn(hints[each.name], random) for each in fields(kind)))
    if origin is np.ndarray:
        dtype = np.dtype(get_args(args[1])[0])
        ends = (False, True) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return np.array([random.choice((0, *ends)) for _ in range(random.randrange(4))], dtype)
    if origin is UnionType:
        return drawn(random.choice(args), random)
    if origin is tuple and args[-1] is not ...:
        return tuple(drawn(each, random) for each in args)
    many = [tuple(drawn(each, random) for each in args if each is not ...) for _ in range(random.randrange(4))]
    if origin in (dict, Counter):
        return origin(dict(many) if len(args) == 2 else {key: 3 for (key,) in many})
    assert origin in (list, tuple, set), kind
    return origin(each for (each,) in many)


def drawn_column(field: pa.Field, random: Random) -> Any:
    return drawn(int if pa.types.is_integer(field.type) else str, random)


def a_scan(random: Random) -> Scan:
    scan = Scan(random.randrange(3))
    scan.grow(random.randrange(3, 5))
    for position in random.sample(range(9), random.randrange(4)):
        scan.hold(position, 0, 1, Vectors.of([np.arange(len(scan.to_arrays()["count"]))]))
    return scan


def told(value: Any) -> Any:
    """The value in types that can be compared, which are those that it has."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist()
    if isinstance(value, Scan):
        return {name: told(each) for name, each in value.to_arrays().items()}
    if is_dataclass(value):
        return type(value).__name__, {each.name: told(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        # The order counts: it decides which messages are forgotten first.
        return type(value).__name__, [(key, told(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [told(each) for each in value]
    return value


@pytest.mark.parametrize("kind", [ClosedState, CommitState, SegmentClocks])
def test_what_is_read_back_is_what_was_written(kind: type) -> None:
    """A live history would go on from something else, or not at all, because of one odd name or number."""
    random = Random(kind.__name__)
    for _ in range(60):
        value = drawn(kind, random)
        assert told(decode(encode(value), kind)) == told(value)


def test_large_arrays_are_written_in_pieces_and_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What many processes know of each other is more than MessagePack has in one piece, and the scan goes on in place."""
    monkeypatch.setattr(codec, "PIECE_BYTES", 16)
    value = TailRows({1: "a"}, np.arange(37), np.arange(7, dtype=np.uint8))
    found = decode(encode(value), TailRows)
    assert told(found) == told(value)
    found.uid[0] = 5


def test_other_types_are_refused() -> None:
    """A value of another class, a number where a name belongs or an array of another kind would pass for state."""
    good = TailRows({}, np.arange(2), np.arange(1, dtype=np.uint8))
    bad = [
        TailRows({1: 2}, good.uid, good.emitted),  # type: ignore[dict-item]
        TailRows({}, good.emitted, good.emitted),  # type: ignore[arg-type]
        TailRows({}, good.uid, 7),  # type: ignore[arg-type]
        LiveTerms(),
    ]
    for value in bad:
        with pytest.raises(NotDecoded, match="not a TailRows"):
            decode(encode(value), TailRows)
    for data in (b"", b"\x80\x05K\x01.", encode(good)[:-1], encode(good) + b"\x00"):
        with pytest.raises(NotDecoded, match="not a TailRows"):
            decode(data, TailRows)
    with pytest.raises(TypeError, match="object cannot be stored"):
        encode(TailRows({}, object(), good.emitted))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="array of float64 cannot be stored"):
        encode(TailRows({}, np.zeros(1), good.emitted))  # type: ignore[arg-type]
