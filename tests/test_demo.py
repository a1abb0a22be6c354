"""What `make demo` shows must be true."""

from io import StringIO

from whence import demo
from whence.clocks import Relation, relation


def test_the_demo_tells_causes_from_bystanders():
    """The first thing a new user sees: the right causes, the innocent left out, the wall clock's errors counted."""
    log, failure = demo.play()
    causes = {e.name for e in log if relation(e.stamps.vector, failure.stamps.vector) is Relation.BEFORE}
    assert {"place order 42 ->", "charge refused ->"} <= causes
    assert {"newsletter sent", "-> confirm order 42"}.isdisjoint(causes)
    out = StringIO()
    demo.main(out)
    said = out.getvalue()
    assert "wall clock       11" in said
    assert "bounded stamps    0" in said
    assert "hybrid stamps     0" in said
