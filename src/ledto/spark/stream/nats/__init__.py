"""Take a JetStream stream; give a stream of frames that replays exactly.

One offset: ``{"next": 1042, "created": "2026-01-02T03:04:05.6Z"}``, the next message to read of the stream made then.
"""
