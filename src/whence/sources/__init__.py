r"""Read files of logs and traces into rows of `whence.events.schema.REPORTS`. Unreadable records become rows with a reason.

One literal line of a file in the format ``whence``, and its row, without columns that are null::

    {"process": "shop", "seq": 2, "kind": "send", "message": "m1", "name": "order placed", "order": 7}

    {"computation": "", "process": "shop", "seq": 2, "kind": "send", "sends": "m1", "name": "order placed",
     "attributes": "{\"order\":7}", "file": "shop.jsonl", "place": 1}
"""

from __future__ import annotations

from whence.sources.conformance import SourceCheckFailed, check_source
from whence.sources.contract import FileSlice, Source, SourceError
from whence.sources.registry import SOURCES, source

__all__ = ["SOURCES", "FileSlice", "Source", "SourceCheckFailed", "SourceError", "check_source", "source"]
