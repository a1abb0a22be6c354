"""Take rows of reports; give them to NATS JetStream, which keeps them until the stream has read them."""
