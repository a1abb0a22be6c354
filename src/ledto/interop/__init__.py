"""Takes clocks of ours; gives messages and logs that other libraries of vector clocks read, and reads theirs.

::

    GoVector("cart")    # stamps messages as the Go library GoVector does: MessagePack with a map of counters
"""

from __future__ import annotations

from ledto.interop.govector import GoVector, GoVectorMessage

__all__ = ["GoVector", "GoVectorMessage"]
