"""The format of Zipkin's JSON, version 2."""
