"""The type checker keeps users from asking what a clock cannot know."""

from mypy import api

ASKS = """
from ledto.clocks import HybridClock, LamportClock, Relation, VectorClock, relation

known: Relation = relation(VectorClock("a").local(), VectorClock("b").local())
relation(LamportClock("a").local(), LamportClock("a").local())
relation(HybridClock("a").local(), HybridClock("a").local())
relation(VectorClock("a").local(), LamportClock("b").local())
LamportClock("a").receive(VectorClock("b").send())
"""


def test_a_relation_of_ordered_stamps_does_not_type_check(tmp_path):
    """Whoever runs a type checker learns before the first run that Lamport and hybrid stamps only sort."""
    asks = tmp_path / "asks.py"
    asks.write_text(ASKS)
    said, complaint, _ = api.run(["--strict", "--no-incremental", "--cache-dir", str(tmp_path), str(asks)])
    assert not complaint
    refused = [line for line in said.splitlines() if "error:" in line]
    assert [int(line.split(":")[1]) for line in refused] == [5, 6, 7, 8], said
