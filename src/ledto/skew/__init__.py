"""Takes the times of messages between clocks; gives how far apart the clocks are, and which of them is wrong."""
