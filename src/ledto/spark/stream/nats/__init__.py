"""Takes a JetStream stream; gives a stream of frames that replays exactly."""
