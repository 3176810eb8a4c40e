"""Backups of streams in nats-server's formats."""
