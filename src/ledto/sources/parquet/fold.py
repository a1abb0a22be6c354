"""Turn further columns into attributes, for runs with files of several formats: they only share the columns of `REPORTS`."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledto.events.schema import COLUMNS, REPORTS, TEXT_LIMIT_CHARACTERS
from ledto.sources.parquet.columns import Mapping
from ledto.sources.parquet.json_text import json_text

DUPLICATE_NAME = "duplicate-key: a column and an attribute have the same name"


def as_attributes(rows: pa.Table, mapping: Mapping) -> pa.Table:
    """Move the values of further columns into the attributes. Quarantine a row in which a name would occur twice."""
    batches = [_fold(batch, mapping) for batch in rows.combine_chunks().to_batches()]
    return pa.Table.from_batches(batches, schema=REPORTS)


def _fold(batch: pa.RecordBatch, mapping: Mapping) -> pa.RecordBatch:
    names = {alias: name for name, alias, _ in mapping.native}
    columns = {name: batch.column(name) for name in COLUMNS}
    if names:
        attributes = columns["attributes"]
        # A quarantined row has no attributes; its text shows its values.
        good = columns["reason"].is_null()
        added = json_text(pa.StructArray.from_arrays([batch.column(alias) for alias in names], list(names.values())))
        added = pc.if_else(pc.and_(good, pc.not_equal(added, "{}")), added, pa.scalar(None, pa.string()))
        columns["attributes"] = pc.coalesce(_merge_objects(attributes, added), attributes, added)
        duplicates = _find_duplicates(attributes, added, list(names.values()))
        if duplicates.any():
            columns = _quarantine(columns, pa.array(duplicates))
    return pa.RecordBatch.from_arrays([columns[name] for name in COLUMNS], schema=REPORTS)


def _merge_objects(attributes: pa.Array, added: pa.Array) -> pa.Array:
    """Join the members of two objects into one; null where either is null."""
    inside = pc.utf8_trim_whitespace(pc.replace_substring_regex(attributes, r"^\s*\{(?s:(.*))\}\s*$", r"\1"))
    more = pc.utf8_slice_codeunits(added, 1)
    return pc.if_else(pc.equal(inside, ""), added, pc.binary_join_element_wise("{", inside, ",", more, ""))


def _find_duplicates(
    attributes: pa.Array, added: pa.Array, names: list[str]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Find the rows in which both objects have a member of the same name."""
    # A name can only be a member if the text contains it, as it is or with escapes. The other rows need no parsing.
    suspect = pc.match_substring(attributes, "\\")
    for name in names:
        suspect = pc.or_(suspect, pc.match_substring(attributes, name))
    suspect = pc.fill_null(pc.and_(suspect, added.is_valid()), False).to_numpy(zero_copy_only=False)
    duplicates = np.zeros(len(attributes), np.bool_)
    for row in np.flatnonzero(suspect).tolist():
        members, more = json.loads(attributes[row].as_py()), json.loads(added[row].as_py())
        duplicates[row] = not members.keys().isdisjoint(more)
    return duplicates


def _quarantine(columns: dict[str, pa.Array], bad: pa.Array) -> dict[str, pa.Array]:
    """Give these rows a reason, and null in all columns that do not say where they come from."""
    kept = ("computation", "process", "file", "place", "reason", "text")
    changed = {
        name: column if name in kept else pc.if_else(bad, pa.scalar(None, column.type), column)
        for name, column in columns.items()
    }
    changed["reason"] = pc.if_else(bad, DUPLICATE_NAME, columns["reason"])
    text = pc.utf8_slice_codeunits(columns["attributes"], 0, TEXT_LIMIT_CHARACTERS)
    changed["text"] = pc.if_else(bad, text, columns["text"])
    return changed
