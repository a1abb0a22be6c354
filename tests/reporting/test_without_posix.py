from __future__ import annotations

import subprocess
import sys

CODE = """
import os, sys
sys.modules["fcntl"] = None
del os.fork, os.register_at_fork
import ledto.reporting
"""


def test_the_package_that_applications_embed_is_imported_on_windows() -> None:
    """An application on Windows could not even be started with it: two modules took what only POSIX has."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
