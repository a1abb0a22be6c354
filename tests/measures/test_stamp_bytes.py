from __future__ import annotations

import pytest

from ledto.clocks import BoundedFormat, BoundedStamp
from ledto.delivery.policies import CBD, Exact, PhysicalAndC, PhysicalOnly
from ledto.measures.stamp_bytes import stamp_bytes


def test_the_papers_four_bytes() -> None:
    """The size that makes two elements worth their violations on a mote (section 6.5) would be misstated."""
    assert stamp_bytes(CBD(1, 10, 10, elements=2), 10) == 4
    # 3 version, 5 r of 31 readings, 4 process bits; then 4 of c; then 5 bits each of 11 elements up to 20.
    assert stamp_bytes(PhysicalOnly(1, 10, 10), 10) == 2
    assert stamp_bytes(PhysicalAndC(1, 10, 10), 10) == 2
    assert stamp_bytes(Exact(10, 10), 10) == -(-(16 + 11 * 5) // 8) == 9
    with pytest.raises(ValueError, match="processes is 1 or more"):
        stamp_bytes(Exact(10, 10), 0)


@pytest.mark.parametrize("elements", [1, 4, 11])
def test_the_size_is_that_of_the_bytes_sent(elements: int) -> None:
    """A reported size would be one that no stamp has."""
    names = tuple(f"p{i}" for i in range(50))
    packed = BoundedFormat(10, 30, names, elements).pack(BoundedStamp("p7", 100, 3, (5,) * 11))
    assert stamp_bytes(CBD(0.5, 10, 30, elements=elements), 50) == len(packed)
