"""Raft groups: one member of each in this server, its clock, its votes and its rest."""
