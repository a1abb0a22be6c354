"""Take the times of messages between clocks; give how far apart the clocks are, and which of them is wrong."""
