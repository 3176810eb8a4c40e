"""Monitoring over the system account: events, and services that answer requests."""
