"""What a client needs: publishes in bulk, and what a server sends taken apart."""
