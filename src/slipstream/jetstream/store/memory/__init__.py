"""Streams in memory: the same contract as files, nothing survives the process."""

from slipstream.jetstream.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
