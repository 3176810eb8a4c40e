"""Streams of nats-server become streams of this server: read, written beside, compared, and only then put in place."""
