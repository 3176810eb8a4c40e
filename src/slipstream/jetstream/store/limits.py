"""Numbers that bound what `jetstream/store` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, MIB

# Sequences looked at in one go for messages to purge.
PURGE_SLICE_SEQS: Final = 1_000_000

# Files the store keeps open at once over all streams; the rest are opened again when needed. A stream in use has two.
# What the kernel keeps for one is about a kilobyte. Where the process may have few descriptors it is a share of those.
STORE_OPEN_FILES_MAX: Final = 65_536
# A segment is closed when it reaches this: the unit of compaction, of an index file, and of one Spark task.
STORE_SEGMENT_BYTES: Final = 64 * MIB
# Smallest segment, for streams with a small max_bytes: space comes back in pieces of this size.
STORE_SEGMENT_BYTES_MIN: Final = 256 * KIB
# The same for a compressed stream, whose segments are compressed when they are closed.
STORE_PACKED_SEGMENT_BYTES: Final = 8 * MIB
# Segments a stream of limited size is cut into at least, so that removing the oldest frees a fraction only.
STORE_SEGMENTS_PER_STREAM_MIN: Final = 8
# Space reserved ahead in a segment: at first, and at most in one step.
STORE_ALLOCATE_BYTES_MIN: Final = 128 * KIB
STORE_ALLOCATE_BYTES_MAX: Final = 16 * MIB
# A piece of a unit is begun to be written back from this size on: the sync of the unit has less to wait for.
STORE_WRITE_BACK_BYTES_MIN: Final = 1 * MIB
# Much is written in pieces of this size, so that the device begins with the first before the last is copied.
STORE_WRITE_PIECE_BYTES: Final = 4 * MIB
# Messages that wait for a commit are kept in blocks of this size: larger ones are fresh memory each time, page by page.
STORE_BLOCK_BYTES: Final = 8 * MIB
# Closed segments that may be without an index file while messages come in: to make one, the segment is read back, which
# takes what the messages need. A start after a crash reads so many more.
STORE_UNINDEXED_SEGMENTS_MAX: Final = 8
# Reserved space that messages leave free, so that deletes and purges can be logged on a full disk.
STORE_CONTROL_MARGIN_BYTES: Final = 64 * KIB
# Space set aside beside the streams, given up when the disk is full so that purges, acks and repair go on.
STORE_RESERVE_BYTES: Final = 8 * MIB
# One read of a segment when messages are fetched in sequence.
STORE_READ_AHEAD_BYTES: Final = 128 * KIB
# Committed bytes kept in memory for consumers that follow the end of the log.
STORE_TAIL_CACHE_BYTES: Final = 1 * MIB
# Records a scan handles before other threads get their turn: about half a millisecond.
STORE_SCAN_STEP_RECORDS: Final = 4096
# A closed segment is rewritten when less than this share of it is alive, in percent.
STORE_COMPACT_LIVE_PERCENT: Final = 50
# Neighbouring segments merged into one by a compaction.
STORE_COMPACT_MERGE_MAX: Final = 64
# Living messages of segments that are merged: taking over the result costs the loop 0.3 µs for each.
STORE_COMPACT_MSGS_MAX: Final = 100_000
# A piece of a file for a replica that gets whole segments: a quarter of what a peer is sent without having answered.
STORE_PIECE_BYTES: Final = 1 * MIB
# Closed segments of a replicated log that are not rewritten: who is so far behind is sent frames, not whole segments.
STORE_VERBATIM_SEGMENTS: Final = 2
# Closed segments that stay for the message ids of removed messages in them, until the duplicate window has passed.
STORE_REMOVED_KEPT_SEGMENTS: Final = 4
# Sequences named one by one in a report of lost messages; the rest is counted.
STORE_LOST_LISTED_MAX: Final = 100_000
# Journal of consumer states: rewritten when it is larger than this and mostly outdated.
STORE_JOURNAL_BYTES_MIN: Final = 1 * MIB
STORE_JOURNAL_GROWTH: Final = 4
# Records of a memory stream are kept in pieces of this size; a piece is the unit in which memory comes back.
STORE_MEMORY_SLAB_BYTES: Final = 1 * MIB

# A commit without sync of so few bytes is written on the loop: less work than waking a thread and being woken by it.
STORE_INLINE_BYTES_MAX: Final = 256 * KIB
# With sync, so few: whoever sends more has more on the way, which the loop takes in while the device works.
STORE_INLINE_SYNC_BYTES_MAX: Final = 8 * KIB
# Bytes read for one message that is asked for alone: a page, because its neighbours are often asked for next.
STORE_POINT_READ_BYTES: Final = 4 * KIB

# Small facts a store keeps beside its messages; all of them are repeated at the head of every segment.
STORE_NOTES_MAX: Final = 1_024
STORE_NOTE_BYTES_MAX: Final = 1 * KIB

# Entries of the index looked at in one go: about a millisecond.
BULK_SCAN_ENTRIES: Final = 500_000
# One read of a file takes in records this close to each other, this many bytes at most; reads for one chunk.
BULK_GAP_BYTES_MAX: Final = 32 * KIB
BULK_READ_BYTES_MAX: Final = 4 * MIB
BULK_EXTENTS_MAX: Final = 256
# Records with wide gaps between them, or few narrow ones, are read one by one. One such read (a microsecond) is worth
# so many bytes of a chunk, and so many of them are made in the loop.
BULK_NARROW_GAPS_MAX: Final = 16
BULK_STRETCH_BYTES: Final = 512
BULK_STRETCHES_AT_ONCE: Final = 64
# Messages read at once, and one by one, where a chunk could not be copied.
BULK_SLOW_MSGS: Final = 1_024
# Records that a reader on this machine looks up in files itself, in one answer: messages (a fifth of a millisecond to
# choose), stretches without gaps, their bytes at most (it looks at heads first, then at everything: that should be in a
# cache by then; it is more than what lies between two marks of bulk commits) and on average at least, and files.
BULK_PLACES_MSGS_MAX: Final = 32_768
BULK_PLACES_MAX: Final = 64
BULK_PLACE_BYTES_MAX: Final = 384 * KIB
BULK_PLACE_BYTES_MIN: Final = 4 * KIB
BULK_PLACES_FILES_MAX: Final = 2
