"""The meta group: which streams there are, and which servers keep them (ADR 73)."""
