"""Takes a broker's stream, a folder that files are put into, or a Kafka topic; gives a streaming DataFrame of `FRAMES`.

One literal row, of a message with the reports of one request::

    {"partition": "ledto", "sequence": 1041, "arrival": 1700000000123456789, "format": "rows",
     "origin": "nats:ledto", "payload": b"..."}

Every source replays: the rows between two offsets are the same however often they are read, by how many tasks, and
after any restart. What cannot be read again is an error that says so, never a gap.
"""

from __future__ import annotations

from ledto.spark.stream.contract import FRAMES, FRAMES_DDL, ROWS, StreamSource, StreamSourceError
from ledto.spark.stream.files.listing import opened_piece
from ledto.spark.stream.open import open_source

__all__ = ["FRAMES", "FRAMES_DDL", "ROWS", "StreamSource", "StreamSourceError", "open_source", "opened_piece"]
