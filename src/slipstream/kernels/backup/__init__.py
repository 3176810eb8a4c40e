"""Formats of nats-server: blocks, backups, their compression."""
