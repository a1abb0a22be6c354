"""The format of ShiViz and GoVector: text with a host and a vector clock for each event."""
