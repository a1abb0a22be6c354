"""Takes the messages of a run; gives the tables that say how wrong each clock is."""
