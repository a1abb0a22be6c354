r"""Take clocks of ours; give messages and logs that other libraries of vector clocks read, and read theirs.

>>> GoVector("cart").prepare_send("paid")    # as the Go library GoVector does: MessagePack with a map of counters
b'\xa4cart\xa4paid\x81\xa4cart\x01'
"""

from __future__ import annotations

from ledto.interop.govector import GoVector, GoVectorMessage

__all__ = ["GoVector", "GoVectorMessage"]
