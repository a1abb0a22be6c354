"""Values of dataclasses as bytes and back, without pickle: reading them runs no code and makes no other types.

MessagePack by msgspec. Which types a value has is told by the annotations of its class, and whatever does not fit them is
refused. Besides what msgspec knows, there are NumPy arrays, Arrow tables, and the state of a `Scan`.

HAZARD: a field that is renamed, or whose meaning changes, makes stored values unreadable, or worse. Where such values stay
on disk, they get another format number then (`ledto.live.state`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar, get_args, get_origin

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.vector_clocks import Scan

T = TypeVar("T")

DTYPES: dict[str, np.dtype[Any]] = {
    "<i4": np.dtype(np.int32),
    "<i8": np.dtype(np.int64),
    "|b1": np.dtype(np.bool_),
    "|u1": np.dtype(np.uint8),
}
"""The kinds of arrays that are stored, by the name that they are stored with."""
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
PIECE_BYTES = 1 << 30
"""Larger arrays are stored as several texts of bytes: MessagePack has none of 4 GiB or more."""


class NotDecoded(ValueError):
    """Bytes are not those of a value of the type that was asked for."""


class StoredArray(msgspec.Struct, array_like=True, frozen=True):
    """An array as it is stored."""

    dtype: str
    shape: list[int]
    pieces: list[bytes]


def encode(value: object) -> bytes:
    """The bytes of a value of a dataclass. Raises `TypeError` for types that are not stored."""
    return _ENCODER.encode(value)


def decode(data: bytes | memoryview, kind: type[T]) -> T:
    """The value of a dataclass that `encode` wrote; raises `NotDecoded` for anything else."""
    try:
        return msgspec.msgpack.decode(data, type=kind, dec_hook=_read)
    except (msgspec.DecodeError, KeyError, ValueError, TypeError, pa.ArrowException) as fault:
        raise NotDecoded(f"no {kind.__name__}: {fault}") from None


def _plain(value: Any) -> Any:
    """A value of what msgspec knows, in place of one that it does not."""
    if isinstance(value, np.ndarray):
        return _stored_array(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, pa.Table):
        return _table_bytes(value)
    if isinstance(value, Scan):
        return value.to_arrays()
    raise TypeError(f"a {type(value).__name__} is not stored")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)


def _read(kind: Any, stored: Any) -> Any:
    """The value of a type that msgspec does not know, from what `_plain` gave for it."""
    if kind is pa.Table:
        return pa.ipc.open_stream(stored).read_all()
    if kind is Scan:
        return Scan.from_arrays({name: _array(msgspec.convert(each, StoredArray)) for name, each in stored.items()})
    if get_origin(kind) is Counter:
        return Counter(msgspec.convert(stored, dict[str, int]))
    if get_origin(kind) is np.ndarray:
        return _array(msgspec.convert(stored, StoredArray), dtype=get_args(get_args(kind)[1])[0])
    raise TypeError(f"a {kind} is not stored")


def _stored_array(array: NDArray[Any]) -> StoredArray:
    name = _NAMES.get(array.dtype)
    if name is None:
        raise TypeError(f"an array of {array.dtype} is not stored")
    data = np.ascontiguousarray(array, dtype=name).reshape(-1).view(np.uint8)
    pieces = [data[at : at + PIECE_BYTES].tobytes() for at in range(0, len(data), PIECE_BYTES)]
    return StoredArray(name, list(array.shape), pieces)


def _array(stored: StoredArray, *, dtype: Any = None) -> NDArray[Any]:
    """The array, which may be written to; raises `ValueError` where its bytes, its shape and the type asked for differ."""
    found = DTYPES.get(stored.dtype)
    if found is None or (dtype is not None and found != np.dtype(dtype)):
        raise ValueError(f"an array of {stored.dtype} where one of {dtype} belongs")
    data: bytes | bytearray = stored.pieces[0] if len(stored.pieces) == 1 else b"".join(stored.pieces)
    return np.frombuffer(data, stored.dtype).reshape(stored.shape).astype(found)


def _table_bytes(table: pa.Table) -> bytes:
    whole = pa.BufferOutputStream()
    with pa.ipc.new_stream(whole, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    found: bytes = whole.getvalue().to_pybytes()
    return found
