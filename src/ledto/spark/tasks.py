"""Run a pickled task in a worker. Imports little: every worker of Spark imports this module first, and users wait for it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from ledto.events.pandas import leave_pandas_out


def run_pickled(tasks: Sequence[bytes], number: int) -> Any:
    """Unpickle one of the tasks, call it, and return its result.

    Unpickling imports the modules of the task, and with them pyarrow, which would import pandas.
    """
    leave_pandas_out()
    return pickle.loads(tasks[number])()
