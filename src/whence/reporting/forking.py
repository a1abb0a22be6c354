"""Reporters through `os.fork`: the parent goes on, the child becomes a process of its own."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """What is told of forks: before, and after in each of the two."""

    def before_fork(self) -> None: ...
    def after_fork_in_parent(self) -> None: ...
    def after_fork_in_child(self) -> None: ...


_watched: weakref.WeakSet[Forked] = weakref.WeakSet()
_forking: list[Forked] = []
"""Those that were told before the fork: the same are told after it."""


def watch(who: Forked) -> None:
    """Tell it of every fork of this process from now on, while it lives."""
    _watched.add(who)


def _before() -> None:
    _forking.extend(_watched)
    for who in _forking:
        who.before_fork()


def _after_in_parent() -> None:
    for who in _forking:
        who.after_fork_in_parent()
    _forking.clear()


def _after_in_child() -> None:
    for who in _forking:
        who.after_fork_in_child()
    _forking.clear()


if hasattr(os, "register_at_fork"):  # Not on Windows, where nothing forks.
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
