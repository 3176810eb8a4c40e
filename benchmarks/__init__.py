"""Measurements beside nats-server: scenarios by family, and the command that compares."""
