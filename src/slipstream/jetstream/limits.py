"""Numbers that bound what `jetstream` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, MIB, SECOND_NS

# No sequence is above the first. A message has at most the second: there must be one behind it, with which a segment
# could begin.
SEQ_MAX: Final = (1 << 64) - 1
SEQ_LAST: Final = SEQ_MAX - 2

# Bytes in the name of a stream or consumer: it is a file name and a subject token.
ASSET_NAME_BYTES_MAX: Final = 255
# Bytes in a description, and in all keys and values of the metadata together: they travel in every info response.
ASSET_DESCRIPTION_BYTES_MAX: Final = 4 * KIB
ASSET_METADATA_BYTES_MAX: Final = 128 * KIB

# Filters of one consumer: they are compared with each other when it is made.
CONSUMER_FILTERS_MAX: Final = 4_096

# What a reader on this machine is told at once to look up in files itself: so many chunks. When its messages do not lie
# together (`store/limits.py`), it is tried again after so many chunks. The last are the files kept open for such a
# reader: more than are in its window.
BULK_PLACES_CHUNKS: Final = 16
BULK_PLACES_AGAIN: Final = 8
BULK_LENT_FILES_MAX: Final = 16

# Open publish batches of a stream and of the server, messages of an atomic one, and how long a batch may be silent.
# nats-server's numbers, which a configuration may change.
ATOMIC_BATCHES_PER_STREAM_MAX: Final = 50
ATOMIC_BATCHES_MAX: Final = 1_000
ATOMIC_BATCH_MSGS_MAX: Final = 1_000
FAST_BATCHES_PER_STREAM_MAX: Final = 1_000
FAST_BATCHES_MAX: Final = 50_000
BATCH_TIMEOUT_NS: Final = 10 * SECOND_NS
BATCH_ID_BYTES_MAX: Final = 64
# Messages of atomic batches wait in memory until they are committed; all batches of a server together hold this much.
ATOMIC_BATCHES_BYTES_MAX: Final = 512 * MIB
