"""Take reports over HTTP; give messages to the broker, and an answer once they are stored."""
