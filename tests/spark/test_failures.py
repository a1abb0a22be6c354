"""What Spark says of a failure, in a sentence."""

from __future__ import annotations

from ledto.spark.jobs import summarise_failure


def test_a_failure_of_python_is_told_by_what_was_raised() -> None:
    """Not by "Traceback": or whoever reads the log learns only that something went wrong."""
    said = """[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy.
Return Message: Traceback (most recent call last):
  File "following.py", line 61, in take
    self._step(found)
ledto.batch.join.Unbalanced: 3 reports came in, and these are accounted for: {'reports': 5}

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""
    assert "Unbalanced: 3 reports came in" in summarise_failure(RuntimeError(said))
