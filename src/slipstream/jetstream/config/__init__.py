"""Stream and consumer configuration: what may be set, how it looks on the wire, what is allowed."""
