"""Takes a committed run; gives answers: what led to an event, what came of it, and how two events relate."""
