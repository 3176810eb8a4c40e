"""Numbers that bound what `jetstream/consumer` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, MIB, MILLISECOND_NS, MINUTE_NS, SECOND_NS

# `ack_wait`, `max_ack_pending`, `max_waiting`, `inactive_threshold` of an ephemeral and `priority_timeout` of a pinned
# client when none is given: nats-server's numbers.
CONSUMER_ACK_WAIT_NS: Final = 30 * SECOND_NS
CONSUMER_ACK_PENDING: Final = 1_000
CONSUMER_WAITING: Final = 512
CONSUMER_INACTIVE_NS: Final = 5 * SECOND_NS
CONSUMER_PIN_NS: Final = 2 * MINUTE_NS
# Idle consumers go this much later than they must, so that many do not go at once: least and spread.
CONSUMER_INACTIVE_SLACK_NS: Final = 100 * MILLISECOND_NS
CONSUMER_INACTIVE_SPREAD_MS: Final = 900
# Smallest `idle_heartbeat`, and the one of flow-control acknowledgement.
CONSUMER_HEARTBEAT_MIN_NS: Final = 100 * MILLISECOND_NS
CONSUMER_FLOW_ACK_HEARTBEAT_NS: Final = 1 * SECOND_NS
# Smallest `max_expires`.
CONSUMER_EXPIRES_MIN_NS: Final = 1 * MILLISECOND_NS
# Pull requests waiting at one consumer, whatever its `max_waiting` says: about 40 MB.
CONSUMER_WAITING_CEILING: Final = 100_000
# Look for gone clients in a full queue of pull requests at most this often.
CONSUMER_WAITING_SWEEP_NS: Final = 1 * SECOND_NS
# Messages and bytes one consumer delivers before other work gets its turn: about two milliseconds.
CONSUMER_SLICE_MSGS: Final = 1_024
CONSUMER_SLICE_BYTES: Final = 1 * MIB
# Messages handed out one by one (several requests, byte budgets, flow control) are read this many at a time.
CONSUMER_CAREFUL_MSGS: Final = 128
# Bytes that may wait for a receiver when more is read for it: enough for the time until the next look, and no more,
# since what waits is memory.
CONSUMER_AHEAD_BYTES: Final = 8 * MIB
# Pause when more waits, or a receiver is near its limit of pending bytes; doubled up to the longest while nothing
# changes, since many consumers may wait for one receiver.
CONSUMER_CONGESTED_NS: Final = 2 * MILLISECOND_NS
CONSUMER_CONGESTED_MAX_NS: Final = 32 * MILLISECOND_NS
# Deliveries and unconfirmed acks reach the disk after this at the latest; confirmed ones before they are confirmed.
CONSUMER_COMMIT_DELAY_NS: Final = 200 * MILLISECOND_NS
# Changes of a consumer's state that are held for this long; more of them go to the journal at once.
CONSUMER_CHANGES_HELD: Final = 1_024
# Changes of a consumer's state are rewritten as one when they outgrow this and twice the state itself.
CONSUMER_DELTAS_BYTES_MIN: Final = 16 * KIB
# Flow control: bytes that may be unconfirmed, and the share the window begins with.
FLOW_WINDOW_BYTES_MAX: Final = 32 * MIB
FLOW_WINDOW_START: Final = 16
# Expired deliveries looked at in one go, and the least time between two looks.
REDELIVER_SLICE_MSGS: Final = 10_000
REDELIVER_INTERVAL_MIN_NS: Final = 1 * MILLISECOND_NS
# Messages looked at in one go for whether anybody still needs them.
RETENTION_SWEEP_MSGS: Final = 2_000
# Up to this many waiting consumers are woken by a commit without asking whether they want what was committed.
CONSUMERS_WOKEN_UNASKED: Final = 8
# Subjects whose interest is remembered per stream (interest retention asks for every publish).
INTEREST_CACHE_MAX: Final = 4_096
# Original-speed replay: shorter gaps are not worth a timer.
REPLAY_GAP_MIN_NS: Final = 1 * MILLISECOND_NS
# Complaints about a consumer's clients: one in this time, because a client could cause any number.
CONSUMER_WARNING_NS: Final = 1 * SECOND_NS
# A dead letter that was not confirmed is sent again after this, so many at a time.
DEAD_LETTER_RETRY_NS: Final = 5 * SECOND_NS
DEAD_LETTERS_IN_FLIGHT: Final = 256
# Orders other than the stream's: messages that are looked at ahead of their turn (about 300 bytes each), by default and
# at most; the largest `max_ack_pending`, since the keys of what is in flight are read again after a restart; messages
# whose keys are read at a time, and in one slice; and keys whose rate is remembered.
AHEAD_MSGS: Final = 4_096
AHEAD_MSGS_MAX: Final = 32_768
ORDERED_ACK_PENDING_MAX: Final = 16_384
AHEAD_READ_MSGS: Final = 256
AHEAD_SLICE_MSGS: Final = 2_048
RATED_KEYS_MAX: Final = 65_536
