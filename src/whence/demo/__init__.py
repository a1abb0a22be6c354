"""``make demo``: an invented shop whose clocks disagree, and what really led to the failure in its logs.

- `whence.demo.shop`: makes the logs, and knows the truth about them. Read this first.
- `whence.demo.play`: the demo: runs the commands it prints, and checks their answers against the truth.
- `whence.demo.stage`: how it talks to a terminal, a pipe, or a pipe that closes early.
"""
