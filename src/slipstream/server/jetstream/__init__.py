"""JetStream at the edge: its threads and directory, its place in a cluster, and what monitoring sees of it."""
