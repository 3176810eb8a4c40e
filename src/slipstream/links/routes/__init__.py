"""Routes: the connections between the servers of one cluster."""
