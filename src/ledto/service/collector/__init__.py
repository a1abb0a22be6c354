"""Takes reports over HTTP; gives messages to the broker, and an answer once they are stored."""
