"""Takes clocks of ours; gives messages and logs that other libraries of vector clocks read, and reads theirs."""
