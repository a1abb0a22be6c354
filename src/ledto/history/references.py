"""Name rows and the lists of rows by one number each, a *reference*: even for a row, odd for the list of a row.

`ledto.causality.lines` says what lists are. Rows may be numbered within a segment or over the whole history; references are
numbered likewise. Skeleton files hold differences of references, so that the coding is part of the format.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import Longs

Rows = TypeVar("Rows", int, Longs)


def reference_to(row: Rows) -> Rows:
    """Refer to a row itself. The result is also how far references move when rows are counted from `row` rows earlier."""
    return 2 * row


def row_of(reference: Rows) -> Rows:
    """Give the row that a reference names, or whose list it names."""
    return reference // 2


def is_list(references: Longs) -> NDArray[np.bool_]:
    """Tell which references name the list of a row."""
    flags: NDArray[np.bool_] = references % 2 == 1
    return flags
