"""Replication: what servers of a cluster agree on, and how (ADR 72, ADR 73). No sockets, clocks or threads in here."""
