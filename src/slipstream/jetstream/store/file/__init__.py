"""Streams on disk: one frame log a stream, see docs/internals/format.md."""

from slipstream.jetstream.store.file.options import FileStoreOptions, segment_bytes_for
from slipstream.jetstream.store.file.store import FileStore

__all__ = ["FileStore", "FileStoreOptions", "segment_bytes_for"]
