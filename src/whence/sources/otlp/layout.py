"""Where the compiled scanners of OTLP write what: columns of tables of 64-bit integers, with texts in a heap of bytes.

Ids are 64-bit integers, those of traces two; a length of -1 says that a text is not there.
"""

from __future__ import annotations

from typing import Final

TAKEN_SPAN: Final = 1
TAKEN_LOG: Final = 2
LEFT: Final = 3
"""A record that the exact reader must look at."""
LEFT_LINE: Final = 4
"""A whole line that it must look at."""

# How much of each table is used.
RECORDS, MOMENTS, DOUBLES, RESOURCES, HEAP, USED = range(6)

# Columns of a record. START and STOP are where it lies, in bytes from the beginning of what was scanned.
(
    STATUS,
    SIGNAL,
    START,
    STOP,
    PLACE,
    RESOURCE,
    TRACE_HIGH,
    TRACE_LOW,
    SPAN,
    PARENT,
    TIME,
    END,
    KIND,
    FAILED,
    NAME,
    NAME_BYTES,
    ATTRIBUTES,
    ATTRIBUTES_BYTES,
    MORE,
    MORE_BYTES,
    FIRST_MOMENT,
    MOMENT_COUNT,
    LINKS,
    LINK_HIGH,
    LINK_LOW,
    LINK_SPAN,
    DOUBLE_COUNT,
    RECORD_COLUMNS,
) = range(28)

SIGNAL_SPANS: Final = 0
SIGNAL_LOGS: Final = 1

# Columns of something that a span recorded while it ran.
(
    MOMENT_TIME,
    MOMENT_NAME,
    MOMENT_NAME_BYTES,
    MOMENT_ATTRIBUTES,
    MOMENT_ATTRIBUTES_BYTES,
    MOMENT_COLUMNS,
) = range(6)

# Columns of a number whose text is still to be written, at DOUBLE_HEAP, and where it was read.
DOUBLE_HEAP, DOUBLE_START, DOUBLE_STOP, DOUBLE_COLUMNS = range(4)

DOUBLE_BYTES: Final = 24
"""Room for the text of any double; zeros that are left over are no part of the text."""
