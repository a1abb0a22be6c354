"""Takes a source of messages that does not end; gives deliveries as they come due, on Spark Structured Streaming."""
