"""Numbers that bound what `jetstream/bulk` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, MIB, MILLISECOND_NS, MINUTE_NS, SECOND_NS

# Records in one chunk of a bulk read: by default, at least, and at most. Larger ones hold the loop for longer.
BULK_CHUNK_BYTES: Final = 256 * KIB
BULK_CHUNK_BYTES_MIN: Final = 16 * KIB
BULK_CHUNK_BYTES_MAX: Final = 1 * MIB
# Chunks a reader may have unconfirmed: by default and at most. It bounds what waits for one reader in memory.
BULK_CREDIT: Final = 8
# Through memory fewer and larger chunks are better; four fit into the second cache of most processors.
BULK_MEMORY_CHUNK_BYTES: Final = 512 * KIB
BULK_MEMORY_CREDIT: Final = 4
BULK_CREDIT_MAX: Final = 64
# The same in bytes: far below the pending bytes that make a connection a slow consumer.
BULK_WINDOW_BYTES_MAX: Final = 16 * MIB
# Bulk readers of one account at once, and of those the ones that have a thread reading for them.
BULK_READERS_MAX: Final = 64
BULK_READS_IN_FLIGHT: Final = 2
# What a chunk of an encrypted stream has of its last frame is left to the next chunk, unless it is more than this.
BULK_LEFT_BYTES_MAX: Final = 64 * KIB
# Encrypted records that the loop opens itself: more takes it longer than to wake up a thread.
BULK_OPENED_AT_ONCE_BYTES: Final = 64 * KIB
# When other clients were heard so often in this time, half as many chunks as there are processors are read in each
# span, none larger than this: on two processors a publish that waits for its sync then takes about twice as long, 99
# times of 100.
BULK_HEARD_NS: Final = 20 * MILLISECOND_NS
BULK_HEARD_READS: Final = 4
BULK_SPAN_NS: Final = 1 * MILLISECOND_NS
BULK_BESIDE_CHUNK_BYTES: Final = 96 * KIB
# They hear of it this much later at most, as long as they were heard themselves in this time.
BULK_WATCH_NS: Final = 5 * MILLISECOND_NS
BULK_WATCHED_NS: Final = 1 * SECOND_NS
# A reader that confirms nothing for so long is dropped; whether it is still there is looked at this often.
BULK_READER_IDLE_NS: Final = 10 * MINUTE_NS
BULK_SWEEP_NS: Final = 5 * SECOND_NS
# Pause when a reader's connection is near its limit of pending bytes.
BULK_CONGESTED_NS: Final = 2 * MILLISECOND_NS
# A chunk is begun again so often when files change under it.
BULK_STALE_MAX: Final = 3
# Subject filters of one request, and the damaged ranges named in one answer.
BULK_FILTERS_MAX: Final = 256
BULK_LOST_LISTED_MAX: Final = 1_000
# Splits of one plan, and the marks it is made from: precision against time. A quarter of the marks is left after they
# were merged, so pieces differ by a sixty-fourth.
BULK_SPLITS_MAX: Final = 4_096
BULK_MARKS_A_SPLIT: Final = 256
BULK_MARKS_MAX: Final = 16_384
# Parts and bytes staged for one stream; for a stream in memory they are memory.
BULK_STAGE_PARTS_MAX: Final = 65_536
BULK_STAGE_BYTES_MAX: Final = 256 * 1024 * MIB
BULK_STAGE_MEMORY_BYTES_MAX: Final = 1024 * MIB
# Parts being written at once in one account, and bytes of one that wait for the disk.
BULK_STAGES_OPEN_MAX: Final = 256
BULK_STAGE_WAITING_BYTES_MAX: Final = 16 * MIB
# Staged bytes committed in one go before other work gets its turn: less than half a millisecond.
BULK_COMMIT_SLICE_BYTES: Final = 512 * KIB
# Of those, read ahead by threads while one is appended: enough that none is waited for.
BULK_COMMIT_SLICES_AHEAD: Final = 3
# The same where each message is looked at by itself (message ids, conditions, life times, republishing).
BULK_COMMIT_CAREFUL_BYTES: Final = 64 * KIB
# A commit under way is written in steps of at least this, and lets the disk catch up when so much waits for it.
BULK_COMMIT_WRITE_BYTES: Final = 4 * MIB
BULK_COMMIT_BACKLOG_BYTES: Final = 32 * MIB
# Parts named in one commit, commits that wait for their turn at one stream.
BULK_COMMIT_PARTS_MAX: Final = 16_384
BULK_COMMITS_WAITING_MAX: Final = 64
# Name of a transaction, and transactions whose last batch a stream remembers: until they were idle for so long and
# others need the place; and brief ones, of one batch that is not repeated later, of which the oldest go.
BULK_TXN_BYTES_MAX: Final = 256
BULK_FENCES_MAX: Final = 512
BULK_FENCE_NS: Final = 30 * 24 * 60 * MINUTE_NS
BULK_BRIEF_FENCES_MAX: Final = 256
