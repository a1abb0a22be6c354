"""Kernels: which way they run, and that nobody can tell from the results."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, cast

import numpy as np
import pytest

from ledto.kernels import KERNELS, Disagreement, Kernel, force_mode, inlined, kernel, part

choosing = import_module("ledto.kernels.kernel")
"""The module. The package has the function `kernel` under the same name."""


@part
def _squared(value: Any) -> Any:
    return value * value


@inlined
def _mixed(value: Any) -> Any:
    return _squared(value) + np.int64(1)


def _sum_of_squares(values: Any, start: int) -> int:
    total = np.int64(start)
    for value in values:
        total += _mixed(value)
    return total


def _fill(values: Any, flags: Any) -> Any:
    for place in range(len(values)):
        flags[place] = values[place] > 0
    return values.copy(), flags[0], values.max()


sum_of_squares = cast(Kernel, kernel("int64(int64[::1], int64)")(_sum_of_squares))
fill = cast(Kernel, kernel("Tuple((int64[::1], boolean, int64))(int64[::1], boolean[::1])")(_fill))


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins with kernels that have not run; those of this module are not ledto's."""
    for each in (sum_of_squares, fill):
        monkeypatch.setattr(each, "_compiled", None)
        monkeypatch.setattr(each, "_seconds", 0.0)
        monkeypatch.setattr(each, "called", {"plain": 0, "compiled": 0})
    monkeypatch.setattr(choosing, "_state", choosing._KernelsState("auto"))
    yield
    for name in [name for name in KERNELS if name.startswith(__name__)]:
        del KERNELS[name]


def test_a_small_call_is_plain_and_a_large_one_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of four lines must not wait for a compiler, and a log of a billion must not wait for Python."""
    monkeypatch.setattr(sum_of_squares, "_price", 0.5)
    assert sum_of_squares(np.arange(10), 0) == sum(n * n + 1 for n in range(10))
    assert sum_of_squares.called == {"plain": 1, "compiled": 0}
    large = np.zeros(10_000_000, np.int64)
    assert sum_of_squares(large, 0) == len(large)
    assert sum_of_squares.called == {"plain": 1, "compiled": 1}
    assert sum_of_squares(np.arange(3), 0) == 8
    assert sum_of_squares.called == {"plain": 1, "compiled": 2}


def test_many_small_calls_come_to_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector or a live writer never sees a large call, and must not stay slow for ever."""
    monkeypatch.setattr(choosing, "SECONDS_AN_ELEMENT", 0.01)
    monkeypatch.setattr(sum_of_squares, "_price", 1.0)
    calls = 0
    while not sum_of_squares.called["compiled"] and calls < 100:
        assert sum_of_squares(np.arange(10), 0) == 295
        calls += 1
    assert 10 <= calls < 30


def test_both_ways_give_the_same_values_and_types() -> None:
    """What a user computes must not depend on the size of the log: integers wrap, and numbers are Python's own."""
    answers = []
    for way in ("plain", "compiled", "both"):
        values, flags = np.array([-3, 1 << 62]), np.zeros(2, np.bool_)
        with force_mode(way):
            answers.append((sum_of_squares(values, 1 << 62), *fill(values, flags), flags))
    for wrapped, copied, first, largest, flags in answers:
        assert (wrapped, type(wrapped)) == ((1 << 62) + 11, int)
        assert copied.tolist() == [-3, 1 << 62]
        assert first is False
        assert (largest, type(largest)) == (1 << 62, int)
        assert flags.tolist() == [False, True]


@pytest.mark.parametrize(
    "wrong",
    [
        np.arange(4, dtype=np.int32),
        np.arange(8)[::2],
        np.zeros((2, 2), np.int64),
        np.frombuffer(bytes(16), np.int64),
        [1, 2],
    ],
    ids=["type", "not contiguous", "dimensions", "read only", "no array"],
)
def test_arrays_of_a_wrong_type_are_refused_both_ways(wrong: Any) -> None:
    """A mistake that only shows from a million rows on would be found by a user."""
    for way in ("plain", "compiled"):
        with force_mode(way), pytest.raises(TypeError):
            sum_of_squares(wrong, 0)


def test_a_disagreement_is_seen() -> None:
    """The comparison of both ways must be able to fail."""

    def unfaithful(values: Any) -> int:
        # In plain Python the sum of two small numbers stays small; compiled code has 64 bits.
        return int(values[0] + values[1])

    one = cast(Kernel, kernel("int64(int8[::1])")(unfaithful))
    with force_mode("both"), pytest.raises(Disagreement, match="unfaithful"):
        one(np.array([100, 100], np.int8))


def test_threads_compile_once_and_agree() -> None:
    """A service asks from many threads at once."""
    found: list[int] = []
    with force_mode("compiled"):
        threads = [Thread(target=lambda: found.append(sum_of_squares(np.arange(10), 0))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [295] * 4


def test_a_kernel_is_pickled_by_name() -> None:
    """Spark sends functions that name kernels to its workers."""
    from ledto.causality.order import _place

    assert pickle.loads(pickle.dumps(_place)) is _place


def _run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return done.stdout.strip()


TINY = """
import numpy as np, sys
from ledto.delivery.sort import deal_and_sort as sort
order = sort(np.array([3, 1, 2]), np.empty(0, np.int64)).tolist()
"""


@pytest.mark.parametrize("way", ["plain", "auto"])
def test_nothing_needs_numba(way: str) -> None:
    """A machine for which there is no numba still answers, however large the call."""
    code = "import sys; sys.modules['numba'] = None; import ledto.kernels.kernel as c; c.SECONDS_AN_ELEMENT = 100.0"
    assert _run(f"{code}{TINY}print(order)", LEDTO_KERNELS=way) == "[1, 2, 0]"


def test_an_unknown_mode_is_named() -> None:
    """A misspelt mode that was ignored would let a test run pass that tested nothing."""
    with pytest.raises(ValueError, match="auto, plain, compiled, both, not 'fast'"), force_mode("fast"):
        pass


def test_code_is_compiled_where_nothing_can_be_kept(tmp_path: Path) -> None:
    """In a container with a read-only file system the command is slower, and does not end in a trace-back."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    no_temporary_files = "import tempfile; tempfile._candidate_tempdir_list = lambda: []\n"
    code = f"{TINY}\nfrom ledto.kernels.compiled import cache_folder; print(order, cache_folder())"
    # Code with checks of bounds is kept in a folder of another name.
    given = {"LEDTO_KERNELS": "compiled", "NUMBA_CACHE_DIR": str(blocked / "below"), "NUMBA_BOUNDSCHECK": "0"}
    assert _run(no_temporary_files + code, **given) == "[1, 2, 0] None"
    private = tmp_path / f"ledto-compiled-{os.getuid()}" / "kernels"
    assert _run(code, TMPDIR=str(tmp_path), **given) == f"[1, 2, 0] {private}", "the next process finds it there"


def test_code_is_compiled_without_its_source() -> None:
    """Where only byte code is installed, a large log would end in a trace-back, and a small one would not."""
    no_source = "import inspect\ndef gone(_): raise OSError('no source')\ninspect.getsource = gone\n"
    assert _run(f"{no_source}{TINY}print(order)", LEDTO_KERNELS="compiled") == "[1, 2, 0]"


def test_what_is_kept_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling once a machine is enough; a change in a part that the kernel calls is compiled anew."""
    from ledto.kernels import compiled

    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)
    recipe = compiled.Recipe(_sum_of_squares, "int64(int64[::1], int64)")
    assert not recipe.is_on_disk()
    assert recipe.compile()(np.arange(3), 0) == 8
    assert compiled.Recipe(_sum_of_squares, "int64(int64[::1], int64)").is_on_disk()
    monkeypatch.setitem(_sum_of_squares.__globals__, "_mixed", _squared)
    assert not compiled.Recipe(_sum_of_squares, "int64(int64[::1], int64)").is_on_disk()
