"""Take a broker's stream, a followed folder, or a Kafka topic; give a streaming DataFrame of `FRAMES`.

One row, of a message with the reports of one request::

    {"partition": "ledto", "sequence": 1041, "arrival": 1700000000123456789, "format": "rows",
     "origin": "nats:ledto", "payload": b"..."}

Every source replays: the rows between two offsets are the same however often they are read, by how many tasks, and
after any restart. If they cannot be read again, that is an error, never a gap.
"""

from __future__ import annotations

from ledto.spark.stream.contract import FRAMES, FRAMES_DDL, ROWS, StreamSource, StreamSourceError
from ledto.spark.stream.files.list_files import open_piece
from ledto.spark.stream.open import open_source

__all__ = ["FRAMES", "FRAMES_DDL", "ROWS", "StreamSource", "StreamSourceError", "open_source", "open_piece"]
