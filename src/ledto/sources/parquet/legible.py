"""Values that cannot be taken as they are: text that is not UTF-8 or no JSON object, and what another type cannot hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ledto.sources.parquet.keys import Mask


def legible(batch: pa.RecordBatch) -> tuple[dict[str, pa.Array], Mask]:
    r"""The columns with every text in UTF-8, and the rows where some was not.

    Readers of Parquet do not check that. Bytes that are not UTF-8 are shown as ``\xNN``; nested values that hold some are
    null.
    """
    columns: dict[str, pa.Array] = {}
    broken = np.zeros(batch.num_rows, np.bool_)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        columns[name] = column
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            columns[name], wrong = _mended(column)
            broken |= wrong
    return columns, broken


def _mended(column: pa.Array) -> tuple[pa.Array, Mask]:
    if kinds.is_dictionary(column.type):
        column = column.dictionary.take(column.indices)
    wrong = _failing(column, lambda part: part.validate(full=True))
    if not (kinds.is_string(column.type) or kinds.is_large_string(column.type)):
        return pc.if_else(pa.array(wrong), pa.scalar(None, column.type), column), wrong
    raw = column.cast(pa.large_binary()).filter(pa.array(wrong)).to_pylist()
    shown = pa.array([each.decode("utf-8", "backslashreplace") for each in raw], pa.string())
    # The broken bytes must not be touched by what only knows text.
    held = pc.replace_with_mask(column.cast(pa.binary()), pa.array(wrong), shown.cast(pa.binary()))
    return held.cast(pa.string()), wrong


def as_type(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """The values as this type, and the rows, if any, whose values it cannot hold, which are null."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if column.type == kind:
        return column, None
    try:
        return column.cast(kind), None
    except pa.ArrowInvalid:
        wrong = _failing(column, lambda part: part.cast(kind))
        return pc.if_else(pa.array(wrong), pa.scalar(None, column.type), column).cast(kind), wrong


def _failing(column: pa.Array, check: Callable[[pa.Array], object]) -> Mask:
    """The rows that fail a check, found by halves."""
    wrong = np.zeros(len(column), np.bool_)
    parts = [np.arange(len(column))]
    while parts:
        rows = parts.pop()
        try:
            check(column.take(pa.array(rows)))
        except pa.ArrowInvalid:
            if len(rows) == 1:
                wrong[rows] = True
            else:
                parts += np.array_split(rows, 2)
    return wrong


def bad_objects(texts: pa.Array) -> Mask:
    """The rows whose text is there and is no JSON object."""
    if texts.null_count == len(texts):
        return np.zeros(len(texts), np.bool_)
    table = pa.table({"text": texts, "row": np.arange(len(texts))})
    import duckdb  # Few logs need it, and every log would wait for it.

    with duckdb.connect(config={"threads": 1}) as database:
        database.register("given", table)
        found = database.sql(
            "SELECT row FROM given WHERE text IS NOT NULL "
            "AND CASE WHEN json_valid(text) THEN json_type(text) <> 'OBJECT' ELSE true END"
        ).to_arrow_table()
    wrong = np.zeros(len(texts), np.bool_)
    wrong[found["row"].to_numpy()] = True
    return wrong
