"""Run ``ledto`` as ``python -m ledto``, where the command is not on the path."""

from ledto.cli import app

app()
