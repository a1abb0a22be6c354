"""ledto: take logs and traces; give what could have caused an event.

An observer turns reports into deliveries, and never says "before" when it cannot know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledto.extras import name_missing_extra

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Any

    from ledto.questions.history import History

__version__ = "0.1.0"


@name_missing_extra()
def open(path: str | os.PathLike[str]) -> History:
    """Open the history at a path or URI. Needs ``ledto[ask]``.

    Raises `ledto.history.NoHistory` where there is none. Nothing heavy is loaded before this is called.
    """
    from ledto.questions.history import open_history

    return open_history(path)


@name_missing_extra()
def observe(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    to: str | os.PathLike[str],
    *,
    engine: str = "inline",
    format: str | None = None,
    unit: str = "ns",
    eps: int | str | None = None,
    policies: str | Sequence[str] = ("exact",),
    **options: Any,
) -> History:
    """Turn logs into the history at `to`, and open it.

    `engine` is ``inline``, which runs in this process and keeps all reports in memory, or ``spark``: the session that is
    running, or one of its own on this machine. The first needs ``ledto[ask]``, and for some formats ``ledto[formats]``; the
    other needs ``ledto[spark]``. `eps` is in the unit, or a text such as ``"20ms"``. Other `options` are those of the
    formats, such as ``mapping`` and ``regex``. Raises `ledto.errors.LedtoError`s that say what to do.
    """
    from ledto.batch.observe import Delivering, RunSettings
    from ledto.batch.observe import observe as observe_with
    from ledto.durations import read_duration
    from ledto.sources.inputs import find_inputs

    if engine not in ("inline", "spark"):
        raise ValueError(f"the engine is inline or spark, not {engine!r}")
    given = [inputs] if isinstance(inputs, str) or hasattr(inputs, "__fspath__") else inputs
    options |= {"unit": unit} if unit != "ns" else {}
    files = find_inputs([str(each) for each in given], format=format, options=options)
    eps = read_duration(eps, unit) if isinstance(eps, str) else eps
    policies = (policies,) if isinstance(policies, str) else tuple(policies)
    settings = RunSettings(unit, eps, delivering=Delivering(policies))
    if engine == "inline":
        from ledto.batch.inline import InlineEngine

        observe_with(InlineEngine(), files, to, settings)
    else:
        from ledto.spark.engine import SparkEngine, is_brief
        from ledto.spark.sweep import borrowed_context

        with borrowed_context(brief=is_brief(files)) as context:
            observe_with(SparkEngine(context), files, to, settings)
    return open(to)
