"""Read the message keys of a column of text, integers or lists of them: for each row, the first key and the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as kinds

from ledto.sources.parquet.columns import is_list

Mask = NDArray[np.bool_]
MORE = pa.list_(pa.string())
NO_TEXT = pa.scalar(None, pa.string())


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of each row. In a row without keys, `first` is null and `count` is 0."""

    first: pa.Array
    more: pa.Array | None
    """The keys after the first; null in rows without them. None if no row has several keys."""
    count: NDArray[np.int64]
    flawed: Mask
    """Rows with a key that is null, empty, or holds a NUL character, which separates names in a history."""

    @property
    def given(self) -> Mask:
        """Return which rows have a key."""
        return self.count > 0


def keys_of(column: pa.Array) -> Keys:
    """Read the keys of a column of text, integers, or lists of these."""
    if is_list(column.type):
        return keys_of_lists(column)
    first = plain_text(column)
    return Keys(first, None, is_valid(column).astype(np.int64), where(column, is_flawed))


def keys_of_lists(lists: pa.Array) -> Keys:
    """Read the keys of a column of lists."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    low = int(offsets[0])
    flat = plain_text(lists.values.slice(low, int(offsets[-1]) - low))
    starts = offsets[:-1] - low
    valid = is_valid(lists)
    count = np.where(valid, np.diff(offsets), 0)
    first = flat.take(pa.array(starts, mask=count == 0))
    wrong = ~is_valid(flat) | where(flat, is_flawed)
    flawed = np.zeros(len(lists), np.bool_)
    if wrong.any():
        before = np.concatenate([[0], np.cumsum(wrong)])
        flawed = valid & (before[offsets[1:] - low] > before[starts])
    several = count > 1
    if not several.any():
        return Keys(first, None, count, flawed)
    kept = np.repeat(several, np.diff(offsets))
    kept[starts[several]] = False
    ends = np.concatenate([[0], np.cumsum(np.where(several, count - 1, 0))]).astype(np.int32)
    rest = pa.ListArray.from_arrays(pa.array(ends), flat.filter(pa.array(kept)), mask=pa.array(~several))
    return Keys(first, rest.cast(MORE), count, flawed)


def lists_of(column: pa.Array) -> pa.Array:
    """Return a column of text or of lists of text as lists; null instead of empty lists."""
    if is_list(column.type):
        lists = column.cast(MORE)
        return pc.if_else(pc.greater(pc.list_value_length(lists), 0), lists, pa.scalar(None, MORE))
    valid = is_valid(column)
    ends = np.concatenate([[0], np.cumsum(valid)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), plain_text(column).drop_null(), mask=pa.array(~valid)).cast(MORE)


def choose(condition: Mask, one: Keys | None, other: Keys | None) -> Keys | None:
    """Take the keys of `one` in rows where the condition holds, and of `other` elsewhere. None counts as no keys."""
    if other is None:
        return None if one is None else only(condition, one)
    if one is None:
        return only(~condition, other)
    if not condition.any():
        return other
    more = None
    if one.more is not None or other.more is not None:
        nulls = pa.nulls(len(condition), MORE)
        more_of_one, more_of_other = (nulls if keys.more is None else keys.more for keys in (one, other))
        more = pc.if_else(pa.array(condition), more_of_one, more_of_other)
    return Keys(
        pc.if_else(pa.array(condition), one.first, other.first),
        more,
        np.where(condition, one.count, other.count),
        np.where(condition, one.flawed, other.flawed),
    )


def only(condition: Mask, keys: Keys) -> Keys:
    """Keep the keys of rows where the condition holds, and none elsewhere."""
    if condition.all():
        return keys
    more = None if keys.more is None else pc.if_else(pa.array(condition), keys.more, pa.scalar(None, MORE))
    first = pc.if_else(pa.array(condition), keys.first, NO_TEXT)
    return Keys(first, more, np.where(condition, keys.count, 0), keys.flawed & condition)


def is_flawed(texts: pa.Array) -> pa.Array:
    """Return which texts cannot be a key: empty ones, and those with a NUL character."""
    return pc.or_(pc.equal(texts, ""), holds_nul(texts))


def holds_nul(texts: pa.Array) -> pa.Array:
    """Return which texts hold a NUL character."""
    return pc.match_substring(texts, "\0")


def where(column: pa.Array, test: Callable[[pa.Array], Any]) -> Mask:
    """Return which rows of a column of text pass the test; nulls and integers do not. Tests values of a dictionary once."""
    if kinds.is_dictionary(column.type):
        passed = pc.fill_null(test(column.dictionary.cast(pa.string())), False).to_numpy(zero_copy_only=False)
        if not passed.any():
            return np.zeros(len(column), np.bool_)
        # Null gets a number of its own, after the others.
        numbers = pc.fill_null(column.indices.cast(pa.int64()), len(passed)).to_numpy()
        return np.asarray(np.append(passed, False)[numbers], np.bool_)
    if kinds.is_integer(column.type) or kinds.is_null(column.type):
        return np.zeros(len(column), np.bool_)
    return np.asarray(pc.fill_null(test(column), False).to_numpy(zero_copy_only=False))


def is_valid(column: pa.Array) -> Mask:
    """Return which rows are not null."""
    if not column.null_count and not kinds.is_null(column.type):
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def plain_text(column: pa.Array) -> pa.Array:
    """Convert text or integers to text, without a dictionary."""
    if kinds.is_dictionary(column.type):
        return column.dictionary.cast(pa.string()).take(column.indices)
    return column if kinds.is_string(column.type) else column.cast(pa.string())
