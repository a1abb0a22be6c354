"""The format of the DistributedClocks tracing server."""
