"""Run ``ledto`` as ``python -m ledto.cli``, where the command is not on the path."""

from ledto.cli import app

app()
