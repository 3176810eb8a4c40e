"""The file system as the store uses it, and what waits for syncs."""
