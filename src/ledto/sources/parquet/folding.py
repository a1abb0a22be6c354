"""Further columns as attributes: where reports of several formats go together, only those of `REPORTS` are common."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledto.events.schema import COLUMNS, REPORTS, TEXT_LIMIT_CHARACTERS
from ledto.sources.parquet.columns import Mapping
from ledto.sources.parquet.json_text import json_text

TWICE = "duplicate-key: a column and an attribute have the same name"


def as_attributes(rows: pa.Table, mapping: Mapping) -> pa.Table:
    """The rows without their further columns, whose values are attributes; a row that has a name twice is set aside."""
    found = [_folded(batch, mapping) for batch in rows.combine_chunks().to_batches()]
    return pa.Table.from_batches(found, schema=REPORTS)


def _folded(batch: pa.RecordBatch, mapping: Mapping) -> pa.RecordBatch:
    names = {alias: name for name, alias, _ in mapping.native}
    columns = {name: batch.column(name) for name in COLUMNS}
    if names:
        given = columns["attributes"]
        # A row that is set aside has no attributes; its text shows what it had.
        kept = columns["reason"].is_null()
        added = json_text(pa.StructArray.from_arrays([batch.column(alias) for alias in names], list(names.values())))
        added = pc.if_else(pc.and_(kept, pc.not_equal(added, "{}")), added, pa.scalar(None, pa.string()))
        columns["attributes"] = pc.coalesce(_both(given, added), given, added)
        twice = _twice(given, added, list(names.values()))
        if twice.any():
            columns = _set_aside(columns, pa.array(twice))
    return pa.RecordBatch.from_arrays([columns[name] for name in COLUMNS], schema=REPORTS)


def _both(given: pa.Array, added: pa.Array) -> pa.Array:
    """The members of two objects as one; null where either is."""
    inside = pc.utf8_trim_whitespace(pc.replace_substring_regex(given, r"^\s*\{(?s:(.*))\}\s*$", r"\1"))
    more = pc.utf8_slice_codeunits(added, 1)
    return pc.if_else(pc.equal(inside, ""), added, pc.binary_join_element_wise("{", inside, ",", more, ""))


def _twice(given: pa.Array, added: pa.Array, names: list[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    # A name that does not occur in the text, as it is or in escapes, is no member.
    suspect = pc.match_substring(given, "\\")
    for name in names:
        suspect = pc.or_(suspect, pc.match_substring(given, name))
    suspect = pc.fill_null(pc.and_(suspect, added.is_valid()), False).to_numpy(zero_copy_only=False)
    twice = np.zeros(len(given), np.bool_)
    for row in np.flatnonzero(suspect).tolist():
        members, more = json.loads(given[row].as_py()), json.loads(added[row].as_py())
        twice[row] = not members.keys().isdisjoint(more)
    return twice


def _set_aside(columns: dict[str, pa.Array], bad: pa.Array) -> dict[str, pa.Array]:
    kept = ("computation", "process", "file", "place", "reason", "text")
    found = {
        name: column if name in kept else pc.if_else(bad, pa.scalar(None, column.type), column)
        for name, column in columns.items()
    }
    text = pc.utf8_slice_codeunits(columns["attributes"], 0, TEXT_LIMIT_CHARACTERS)
    return found | {"reason": pc.if_else(bad, TWICE, columns["reason"]), "text": pc.if_else(bad, text, columns["text"])}
