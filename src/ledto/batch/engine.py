"""Define what a run needs of an engine.

The steps of a run are in this package. Spark (`ledto.spark.engine`) carries them out in parallel, on this machine or on a
cluster; the inline engine (`ledto.batch.inline`) does so in this process, without Java. Both make the same history, byte
for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from ledto.batch.survey import Computation, Survey
    from ledto.history.window.plan import TimeBins, WindowPlan
    from ledto.history.window.segment import SegmentResult, SegmentTarget
    from ledto.sources.inputs import Inputs

R = TypeVar("R")

OnStage = Callable[[str, int, int], None]
"""Called with the name of the step, how much of it is done, and its total; the total is 0 if it is not known."""


def ignore_stages(stage: str, done: int, total: int) -> None:
    """Ignore progress."""


class RunReports(Protocol):
    """All reports of a run, wherever an engine keeps them. Nothing is read until a method is called."""

    @property
    def native_columns(self) -> tuple[str, ...]:
        """The columns of Parquet inputs that mean nothing to ledto and keep their own types."""
        ...

    @property
    def channels(self) -> Mapping[str, int]:
        """How many sends and receives of channels were matched, by outcome; empty if there are no channels."""
        ...

    def survey(self, *, window_rows: int) -> Survey:
        """Count the reports."""
        ...

    def histogram(self, computation: Computation, bins: TimeBins) -> dict[int, int]:
        """Count the rows of a computation by bin of wall time."""
        ...

    def sample(self, computation: Computation, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        """Give rows of a computation with wall times from `start` up to `stop`: all, or only some if they are many."""
        ...

    def make_segments(
        self, plan: WindowPlan, columns: Sequence[str], target: SegmentTarget, on_progress: Callable[[int, int], None]
    ) -> list[SegmentResult]:
        """Solve every window of the plan by `make_segment`, with these columns of its rows."""
        ...

    def explain(self, plan: WindowPlan, columns: Sequence[str], target: SegmentTarget) -> str:
        """Describe how `make_segments` would do it."""
        ...


class Engine(Protocol):
    """Carries out the steps of a run."""

    def run_tasks(
        self,
        tasks: Sequence[Callable[[], R]],
        description: str,
        *,
        on_progress: Callable[[int], None] = lambda done: None,
    ) -> list[R]:
        """Call every task; give the results in the order of the tasks.

        Tasks and results must pickle. A task may run twice, so its result must not depend on where or when it runs.
        """
        ...

    def read(self, inputs: Inputs, target: SegmentTarget | None, on_stage: OnStage) -> RunReports:
        """Prepare the reports of the inputs: match channels, and join linked traces.

        May keep reports that take long to read in the target's folder `layout.STAGING` until the run ends. Without a
        target, keeps nothing.
        """
        ...

    def takes_at_once(self, inputs: Inputs) -> bool:
        """Tell whether the inputs are so small that one task should do the whole run."""
        ...
