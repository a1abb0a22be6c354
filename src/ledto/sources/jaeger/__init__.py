"""The format of Jaeger's JSON."""
