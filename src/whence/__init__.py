"""whence: what could have caused this event?

An observer turns reports into deliveries, and never says "before" when it cannot know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from whence.history.questions.history import History

__version__ = "0.1.0"


def open(path: str | os.PathLike[str]) -> History:
    """The history that ``whence observe`` left at a path or URI, to be asked questions; needs ``whence[spark]``.

    Raises `whence.history.NoHistory` where there is none. Nothing heavy is loaded before this is called.
    """
    from whence.history.questions.history import open_history

    return open_history(path)
