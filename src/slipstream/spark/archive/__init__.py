"""Streams together with their archives, as one table."""
