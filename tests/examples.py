"""How many examples Hypothesis tries where its usual hundred are not the right number."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100


def examples(count: int) -> settings:
    """So many, and as many fewer or more as the profile tries than the usual; at least ten."""
    return settings(max_examples=max(10, count * settings.default.max_examples // USUAL), deadline=None)
