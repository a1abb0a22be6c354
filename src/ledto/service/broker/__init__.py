"""Takes rows of reports; gives them to NATS JetStream, which keeps them until the stream has read them."""
