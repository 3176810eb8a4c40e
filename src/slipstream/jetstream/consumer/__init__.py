"""Consumers: who has been given which message of a stream, and what comes next."""
