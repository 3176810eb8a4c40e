"""What may join a stream, and as what: rules, conditions in headers, batches, message ids."""
