"""Streams on disk: one frame log a stream, see docs/internals/format.md."""

from slipstream.jetstream.store.file.store import FileStore, FileStoreOptions, segment_bytes_for

__all__ = ["FileStore", "FileStoreOptions", "segment_bytes_for"]
