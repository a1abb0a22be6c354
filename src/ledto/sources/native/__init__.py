"""Our own format of JSON lines, one event a line."""
