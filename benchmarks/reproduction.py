"""How long the whole reproduction of the observer paper takes, as a user runs it."""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.report import Goal, Section


def section() -> Section:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ledto.cli", "reproduce", "observer", "--to", folder]
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        with Path(folder, "stated.csv").open() as rows:
            verdicts = Counter((row["reading"], row["verdict"]) for row in csv.DictReader(rows))
    return Section(
        "Reproduction of the observer paper",
        "`ledto reproduce observer`: Figures 2 to 7, both readings, 10 seeds of 20,000 messages a cell, on Spark in local mode, "
        "with figures and report; and how many of the paper's statements are met under each reading.",
        ("reading", "met", "missed"),
        [
            (reading, verdicts[reading, "met"], verdicts[reading, "missed"])
            for reading in sorted({reading for reading, _ in verdicts})
        ],
        [Goal("in full within 5 minutes on 2 cores", f"{seconds:.0f} s", seconds <= 300)],
    )
