"""Takes the reports of one window of time; gives a segment: rows in causal order, with their causes and lines."""
