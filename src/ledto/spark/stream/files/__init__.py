"""Takes a folder that files are put into; gives a stream of frames that replays exactly."""
