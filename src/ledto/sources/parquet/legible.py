"""Find values that cannot be used: text that is not UTF-8 or no JSON object, and values that another type cannot hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ledto.sources.parquet.keys import Mask


def legible(batch: pa.RecordBatch) -> tuple[dict[str, pa.Array], Mask]:
    r"""Return the columns with every text in UTF-8, and the rows in which some text was not.

    Readers of Parquet do not check this. Bytes that are not UTF-8 become ``\xNN``; nested values with such bytes become
    null.
    """
    columns: dict[str, pa.Array] = {}
    broken = np.zeros(batch.num_rows, np.bool_)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        columns[name] = column
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            columns[name], wrong = _mend(column)
            broken |= wrong
    return columns, broken


def _mend(column: pa.Array) -> tuple[pa.Array, Mask]:
    if kinds.is_dictionary(column.type):
        column = column.dictionary.take(column.indices)
    wrong = _find_failing(column, lambda part: part.validate(full=True))
    if not (kinds.is_string(column.type) or kinds.is_large_string(column.type)):
        return pc.if_else(pa.array(wrong), pa.scalar(None, column.type), column), wrong
    raw = column.cast(pa.large_binary()).filter(pa.array(wrong)).to_pylist()
    shown = pa.array([value.decode("utf-8", "backslashreplace") for value in raw], pa.string())
    # Replace them as bytes: kernels for text must not see bytes that are not UTF-8.
    mended = pc.replace_with_mask(column.cast(pa.binary()), pa.array(wrong), shown.cast(pa.binary()))
    return mended.cast(pa.string()), wrong


def as_type(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """Cast a column. Return it, and the rows whose values the type cannot hold: they become null. None if all fit."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if column.type == kind:
        return column, None
    try:
        return column.cast(kind), None
    except pa.ArrowInvalid:
        wrong = _find_failing(column, lambda part: part.cast(kind))
        return pc.if_else(pa.array(wrong), pa.scalar(None, column.type), column).cast(kind), wrong


def _find_failing(column: pa.Array, check: Callable[[pa.Array], object]) -> Mask:
    """Find the rows for which `check` raises, by halving the column."""
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
    """Find the rows whose text is not null and no JSON object."""
    if texts.null_count == len(texts):
        return np.zeros(len(texts), np.bool_)
    table = pa.table({"text": texts, "row": np.arange(len(texts))})
    import duckdb  # Loading takes time, and few files need it.

    with duckdb.connect(config={"threads": 1}) as database:
        database.register("given", table)
        bad_rows = database.sql(
            "SELECT row FROM given WHERE text IS NOT NULL "
            "AND CASE WHEN json_valid(text) THEN json_type(text) <> 'OBJECT' ELSE true END"
        ).to_arrow_table()
    wrong = np.zeros(len(texts), np.bool_)
    wrong[bad_rows["row"].to_numpy()] = True
    return wrong
