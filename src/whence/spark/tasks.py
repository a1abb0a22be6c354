"""What a worker runs. It imports little itself: each worker of Spark starts with it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from whence.events.pandas import leave_pandas_out


def run_pickled(tasks: Sequence[bytes], number: int) -> Any:
    """Unpickle one of the tasks, call it, and give its result.

    Unpickling imports the modules of the task, and with them pyarrow, which would import pandas.
    """
    leave_pandas_out()
    return pickle.loads(tasks[number])()
