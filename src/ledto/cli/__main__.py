"""``python -m ledto.cli``: the command where it is not on the path."""

from ledto.cli import app

app()
