"""Write a history as files that other tools read, and that ledto reads again with the same relations.

    >>> import ledto
    >>> with open("shop.log", "wb") as file:
    ...     written = export(ledto.open("shop.history"), "shiviz", file)
    >>> print(open("shop.log").read())    # each event is two lines
    order placed
    shop {"shop":1}
    checkout
    cart {"cart":1}
    order paid
    shop {"cart":1, "shop":2}
    <BLANKLINE>

A history is written segment by segment; memory does not grow with it (`ledto.export.events`). A part of it can be
chosen (`ledto.export.selection`): any two of its events keep their relation.
"""

from __future__ import annotations

from ledto.export.formats import FORMATS, Exported, ExportRefused, export
from ledto.export.selection import Selection, choose

__all__ = ["FORMATS", "ExportRefused", "Exported", "Selection", "choose", "export"]
