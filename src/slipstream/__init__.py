"""Slipstream: a NATS and JetStream server in Python."""
