"""Replication: what servers of a cluster agree on, and how (ADR 72, ADR 73). No sockets, clocks or threads in here.

`group` needs the Raft core (`slipstream_raft`, the extra `cluster`), so only servers of a cluster import it.
"""
