"""Take a loop over arrays; give a kernel, which runs as plain Python until compiling it pays.

- `kernel` marks a loop that other code calls: ``@kernel("int64[::1](int64[::1])")``;
- `part` marks a function that kernels call, and `inlined` one whose body is put into each of its callers.

The environment variable ``LEDTO_KERNELS`` forces one way: ``plain`` (numba is never imported), ``compiled``, or
``both``, which runs both ways and raises `Disagreement` if the results differ. ``auto``, the default, chooses.
docs/decisions/0016-kernels-that-wait.md says how, and has the measurements.
"""

from ledto.kernels.compiled import inlined, part
from ledto.kernels.kernel import KERNELS, Disagreement, Kernel, force_mode, kernel

__all__ = ["KERNELS", "Disagreement", "Kernel", "force_mode", "inlined", "kernel", "part"]
