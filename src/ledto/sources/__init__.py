r"""Read files of logs and traces into rows of `ledto.events.schema.REPORTS`. Unreadable records become rows with a reason.

One literal line of a file in the format ``ledto``, and its row, without columns that are null::

    {"process": "shop", "seq": 2, "kind": "send", "message": "m1", "name": "order placed", "order": 7}

    {"computation": "", "process": "shop", "seq": 2, "kind": "send", "sends": "m1", "name": "order placed",
     "attributes": "{\"order\":7}", "file": "shop.jsonl", "place": 1}
"""

from __future__ import annotations

from ledto.sources.conformance import SourceCheckFailed, check_source
from ledto.sources.contract import FileSlice, Source, SourceError
from ledto.sources.registry import SOURCES, source

__all__ = ["SOURCES", "FileSlice", "Source", "SourceCheckFailed", "SourceError", "check_source", "source"]
