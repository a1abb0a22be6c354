"""Tell reporters of every `os.fork`: the parent continues, the child becomes a process of its own."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """An object whose methods are called before a fork, and after it in the parent and in the child."""

    def before_fork(self) -> None: ...
    def after_fork_in_parent(self) -> None: ...
    def after_fork_in_child(self) -> None: ...


_watched: weakref.WeakSet[Forked] = weakref.WeakSet()
_forking: list[Forked] = []
"""The objects called before the fork that is under way. The same ones are called after it."""


def watch_forks(watcher: Forked) -> None:
    """Call the watcher's methods at every fork from now on. Holds only a weak reference to it."""
    _watched.add(watcher)


def _before() -> None:
    _forking.extend(_watched)
    for watcher in _forking:
        watcher.before_fork()


def _after_in_parent() -> None:
    for watcher in _forking:
        watcher.after_fork_in_parent()
    _forking.clear()


def _after_in_child() -> None:
    for watcher in _forking:
        watcher.after_fork_in_child()
    _forking.clear()


if hasattr(os, "register_at_fork"):  # Not on Windows, where nothing forks.
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
