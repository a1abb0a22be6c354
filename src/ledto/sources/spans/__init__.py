"""What Jaeger, Zipkin and OTLP have in common: spans as rows of reports, and the names of their processes."""
