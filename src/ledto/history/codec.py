"""Turn values of dataclasses into bytes and back, without pickle: decoding runs no code.

The bytes are MessagePack, by msgspec. The annotations of a class say which types its fields have; `decode` refuses anything
else. Fields may also be NumPy arrays, Arrow tables and `Scan`s.

HAZARD: renaming a field, or changing its meaning, makes stored values unreadable or wrong. Give values that stay on disk
another format number then (`ledto.live.state`).
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
"""The types of arrays that can be stored, by their names in the bytes."""
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
PIECE_BYTES = 1 << 30
"""Larger arrays are stored in several pieces: MessagePack allows no byte string of 4 GiB or more."""


class NotDecoded(ValueError):
    """The bytes do not encode a value of the wanted type."""


class StoredArray(msgspec.Struct, array_like=True, frozen=True):
    """An array in the form that is stored."""

    dtype: str
    shape: list[int]
    pieces: list[bytes]


def encode(value: object) -> bytes:
    """Encode a value of a dataclass. Raises `TypeError` for types that cannot be stored."""
    return _ENCODER.encode(value)


def decode(data: bytes | memoryview, kind: type[T]) -> T:
    """Decode what `encode` wrote for a value of this class. Raises `NotDecoded` for other bytes."""
    try:
        return msgspec.msgpack.decode(data, type=kind, dec_hook=_decode_other)
    except (msgspec.DecodeError, KeyError, ValueError, TypeError, pa.ArrowException) as fault:
        raise NotDecoded(f"not a {kind.__name__}: {fault}") from None


def _encode_other(value: Any) -> Any:
    """Convert a value that msgspec cannot encode into one that it can."""
    if isinstance(value, np.ndarray):
        return _store_array(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, pa.Table):
        return _table_bytes(value)
    if isinstance(value, Scan):
        return value.to_arrays()
    raise TypeError(f"a {type(value).__name__} cannot be stored")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode_other)


def _decode_other(kind: Any, stored: Any) -> Any:
    """Undo `_encode_other` for a value of this type."""
    if kind is pa.Table:
        return pa.ipc.open_stream(stored).read_all()
    if kind is Scan:
        arrays = {name: _load_array(msgspec.convert(array, StoredArray)) for name, array in stored.items()}
        return Scan.from_arrays(arrays)
    if get_origin(kind) is Counter:
        return Counter(msgspec.convert(stored, dict[str, int]))
    if get_origin(kind) is np.ndarray:
        return _load_array(msgspec.convert(stored, StoredArray), dtype=get_args(get_args(kind)[1])[0])
    raise TypeError(f"a {kind} cannot be stored")


def _store_array(array: NDArray[Any]) -> StoredArray:
    name = _NAMES.get(array.dtype)
    if name is None:
        raise TypeError(f"an array of {array.dtype} cannot be stored")
    data = np.ascontiguousarray(array, dtype=name).reshape(-1).view(np.uint8)
    pieces = [data[at : at + PIECE_BYTES].tobytes() for at in range(0, len(data), PIECE_BYTES)]
    return StoredArray(name, list(array.shape), pieces)


def _load_array(stored: StoredArray, *, dtype: Any = None) -> NDArray[Any]:
    """Make the array, writable. Raises `ValueError` if its bytes, its shape and the wanted type do not agree."""
    stored_dtype = DTYPES.get(stored.dtype)
    if stored_dtype is None or (dtype is not None and stored_dtype != np.dtype(dtype)):
        raise ValueError(f"the stored array is of {stored.dtype}, and one of {dtype} is expected")
    data: bytes | bytearray = stored.pieces[0] if len(stored.pieces) == 1 else b"".join(stored.pieces)
    return np.frombuffer(data, stored.dtype).reshape(stored.shape).astype(stored_dtype)


def _table_bytes(table: pa.Table) -> bytes:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    data: bytes = stream.getvalue().to_pybytes()
    return data
