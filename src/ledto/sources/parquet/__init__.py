"""Read Parquet files in the format ``ledto``. Give rows of `ledto.events.schema.REPORTS` with the file's further columns.

One literal row of a file, and its report, without columns that are null::

    {"process": "shop", "seq": 2, "sends": 17, "order": 7}

    {"computation": "", "process": "shop", "seq": 2, "kind": "send", "sends": "17", "file": "shop.parquet", "place": 0,
     "order": 7}

`parquet_schema` checks a file's columns, and `read_parquet_rows` reads its rows, a part at a time::

    mapping = parquet_schema(file, "ns")
    for rows in read_parquet_rows(file, mapping):
        ...

Nothing in this package imports Spark.
"""

from __future__ import annotations

from ledto.sources.parquet.columns import Mapping, map_schema
from ledto.sources.parquet.files import (
    PARQUET_SUFFIXES,
    RowGroup,
    parquet_schema,
    read_parquet_rows,
    read_piece,
    read_row_group,
    row_groups,
)
from ledto.sources.parquet.fold import as_attributes
from ledto.sources.parquet.reports import reports_of

__all__ = [
    "PARQUET_SUFFIXES",
    "Mapping",
    "RowGroup",
    "as_attributes",
    "map_schema",
    "parquet_schema",
    "read_parquet_rows",
    "read_piece",
    "read_row_group",
    "reports_of",
    "row_groups",
]
