"""Take a seed; give the logs of an invented shop whose clocks disagree, and the answers about its failure (``make demo``).

- `ledto.demo.shop`: write the logs, and return the truth about them. Read this first.
- `ledto.demo.play`: run the commands that the demo prints, and check their answers against the truth.
- `ledto.demo.stage`: print to a terminal, a pipe, or a pipe that closes early.

It takes a seed and gives logs with lines such as ``{"process": "orders-1", "seq": 9, "kind": "local", ...}``, a history of
them, and ``report.html``.
"""
