"""Numbers that bound what `jetstream/stream` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import MIB, MILLISECOND_NS, MINUTE_NS, SECOND_NS

# Time between a store's turns of background work (index files, compaction, scrubbing, repair after a fault).
STREAM_UPKEEP_INTERVAL_NS: Final = 1 * SECOND_NS
# The same for a stream where nothing changes: ten thousand idle streams must not keep a core busy.
STREAM_UPKEEP_IDLE_NS: Final = 1 * MINUTE_NS
# Messages expired in one go before other work gets its turn: a few milliseconds.
EXPIRE_SLICE_MSGS: Final = 1_000
# Messages removed in one go by a purge, by tighter limits or by age: some milliseconds.
PURGE_SLICE_MSGS: Final = 5_000
# Removed messages that may wait for their commit before long work goes on: that many leave the index in one go.
PURGE_WAITING_MSGS: Final = 10_000
# Oldest messages dropped one by one for the place of a new one, or in one go when limits became tighter.
LIMIT_SLICE_MSGS: Final = 1_000
# Subjects looked at in one go when the limit per subject became tighter.
LIMIT_SLICE_SUBJECTS: Final = 1_000
# Earliest next look for expired messages: many short-lived messages must not become many timers.
EXPIRE_INTERVAL_MIN_NS: Final = 20 * MILLISECOND_NS
# Messages read at once when ids, schedules and origins are found again in a log.
HEADER_SCAN_BATCH_MSGS: Final = 1_000
HEADER_SCAN_BATCH_BYTES: Final = 4 * MIB

# A stream asks an origin for a consumer at most this often; after failures it waits so much longer for each, up to the
# maximum. Attempts are spread by once to twice the jitter: many streams shall not ask at once. nats-server's numbers.
SOURCE_RETRY_NS: Final = 2 * SECOND_NS
SOURCE_BACKOFF_NS: Final = 10 * SECOND_NS
SOURCE_BACKOFF_MAX_NS: Final = 2 * MINUTE_NS
SOURCE_JITTER_NS: Final = 100 * MILLISECOND_NS
# How long the first answer may take, from a consumer to be made and from one that exists; without one each further
# answer twice as long as the one before, up to the maximum.
SOURCE_FIRST_TIMEOUT_NS: Final = 2 * SECOND_NS
SOURCE_LASTING_TIMEOUT_NS: Final = 5 * SECOND_NS
SOURCE_TIMEOUT_NS: Final = 30 * SECOND_NS
# An origin that says nothing for so long is asked again; it forgets a reader after the same time.
SOURCE_SILENCE_NS: Final = 10 * SECOND_NS
# `ack_wait` of a reader's consumer, which expects no acks: longer than anything.
SOURCE_ACK_WAIT_NS: Final = 22 * 60 * MINUTE_NS
# Copies that wait for the disk, of all sources of a stream together. Each is bound by flow control already, so this is
# for streams of many sources; it is not the limit of what publishers may have waiting.
SOURCE_BUFFERED_BYTES_MAX: Final = 256 * MIB
# Refused messages of one origin are logged once in this time.
SOURCE_ERROR_LOG_NS: Final = 10 * SECOND_NS
# How far sources were read is written down this often, if it is not known from the messages stored.
SOURCE_JOURNAL_NS: Final = 5 * SECOND_NS
# Sequences looked at in one go for where sources were left, from the end of the log.
SOURCE_SCAN_SEQS: Final = 4_096

# Messages of a truncation that go in one commit: they leave the index in one turn, about a microsecond each.
TRUNCATE_COMMIT_MSGS: Final = 32_768
# A fast batch that is alone is acknowledged this often at least, in messages.
FAST_BATCH_ACK_EVERY_MAX: Final = 500
# Schedules are looked at this often at most, so that they do not keep publishers waiting; so many fire in one turn.
SCHEDULE_INTERVAL_MIN_NS: Final = 250 * MILLISECOND_NS
SCHEDULE_SLICE_MSGS: Final = 1_000
# A schedule that could not be published is tried again after this time.
SCHEDULE_RETRY_NS: Final = 1 * SECOND_NS
# Time zones kept in memory; there are about six hundred names.
SCHEDULE_ZONES_MAX: Final = 1_024
