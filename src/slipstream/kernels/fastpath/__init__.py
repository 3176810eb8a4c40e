"""Fast paths between wire and log: into a stream, out to consumers, acks, one message by request."""
