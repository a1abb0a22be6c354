"""Write a history as files that other tools read, and that ledto reads again with the same relations.

::

    with open("shop.log", "wb") as file:
        export(ledto.open("shop.history"), "shiviz", file)

One record of such a log::

    order placed
    shop {"shop":2, "stock":1}

A history is written segment by segment; memory does not grow with it (`ledto.export.events`). A part of it can be
chosen (`ledto.export.selection`): any two of its events keep their relation.
"""

from __future__ import annotations

from ledto.export.formats import FORMATS, Exported, ExportRefused, export
from ledto.export.selection import Selection, choose

__all__ = ["FORMATS", "ExportRefused", "Exported", "Selection", "choose", "export"]
