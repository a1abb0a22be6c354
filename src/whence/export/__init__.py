"""Write a history as files that other tools read, and that whence reads again with the same relations.

::

    with open("shop.log", "wb") as file:
        export(whence.open("shop.history"), "shiviz", file)

One record of such a log::

    order placed
    shop {"shop":2, "stock":1}

A history is written segment by segment; memory does not grow with it (`whence.export.events`). A part of it can be
chosen (`whence.export.selection`): any two of its events keep their relation.
"""

from __future__ import annotations

from whence.export.formats import FORMATS, Exported, ExportRefused, export
from whence.export.selection import Selection, choose

__all__ = ["FORMATS", "ExportRefused", "Exported", "Selection", "choose", "export"]
