"""``python -m whence.cli``: the command where it is not on the path."""

from whence.cli import app

app()
