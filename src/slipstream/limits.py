"""Every number that bounds something, with its unit and its reason.

What this is not: configuration. An operator changes the ones that are also options in a config file (their option
is named in the comment); the constant here is the default or the hard bound behind it.

Append only: a constant is named for what it bounds, its unit comes last, and the comment says why that number.
Durations are integer nanoseconds.
"""

from __future__ import annotations

from typing import Final

MICROSECOND_NS: Final = 1_000
MILLISECOND_NS: Final = 1_000_000
SECOND_NS: Final = 1_000_000_000
MINUTE_NS: Final = 60 * SECOND_NS
HOUR_NS: Final = 60 * MINUTE_NS

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

# --- listeners -------------------------------------------------------------------------------------------------

DEFAULT_HOST: Final = "0.0.0.0"  # all interfaces, as nats-server
DEFAULT_PORT: Final = 4222  # the port every NATS client tries first
DEFAULT_LEAFNODE_PORT: Final = 7422  # added to leaf remotes without a port
RANDOM_PORT: Final = -1  # in a config file or flag: let the kernel choose
# Connections that wait to be accepted while the loop is busy. Past it the kernel drops the attempt and the client's
# repeats it after a second, so the number is the most that systems allow by default.
LISTEN_BACKLOG: Final = 4096

# --- client protocol -------------------------------------------------------------------------------------------

# `max_control_line`: one op line without its payload. CONNECT with a user JWT is the longest in practice (~2 KiB).
MAX_CONTROL_LINE_BYTES: Final = 4096
# `max_payload`: header and body of one message. Larger blobs belong in the object store.
MAX_PAYLOAD_BYTES: Final = 1 * MIB
# A `max_payload` above this is accepted with a warning: one message then occupies the link for too long.
MAX_PAYLOAD_WARN_BYTES: Final = 8 * MIB
# `max_payload` and `max_control_line` travel in 32-bit fields.
MAX_INT32: Final = 2**31 - 1
# `max_pending`: bytes waiting for one client before it counts as a slow consumer.
MAX_PENDING_BYTES: Final = 64 * MIB
# `max_sub_tokens` is stored in one byte by nats-server, so larger values are refused.
MAX_SUB_TOKENS_CEILING: Final = 255

# --- connections and timers ------------------------------------------------------------------------------------

# `max_connections`: below the usual per-process descriptor limit of a tuned host.
MAX_CONNECTIONS: Final = 65_536
# `ping_interval`: a dead peer is found after interval * (ping_max + 1) at the latest.
PING_INTERVAL_NS: Final = 2 * MINUTE_NS
# `ping_max`: unanswered PINGs before the connection is called stale.
PING_MAX: Final = 2
# The first PING comes early so that the round trip time is known.
FIRST_PING_MAX_NS: Final = 2 * SECOND_NS
# `write_deadline`: a flush that takes longer means the peer does not read.
WRITE_DEADLINE_NS: Final = 10 * SECOND_NS
# `authorization.timeout`: CONNECT must arrive within this time.
AUTH_TIMEOUT_NS: Final = 2 * SECOND_NS
# With TLS the authentication timeout is the handshake's plus this, unless configured.
AUTH_AFTER_TLS_NS: Final = 1 * SECOND_NS
# `tls.timeout`: the whole handshake.
TLS_TIMEOUT_NS: Final = 2 * SECOND_NS
# `tls.handshake_first: auto`: how long to wait for a ClientHello before INFO is sent in clear.
TLS_HANDSHAKE_FIRST_FALLBACK_NS: Final = 50 * MILLISECOND_NS
# `max_closed_clients`: entries kept for connz state=closed.
MAX_CLOSED_CLIENTS: Final = 10_000
# `lame_duck_duration`: clients are closed spread over this time, so that they do not stampede the next server.
LAME_DUCK_DURATION_NS: Final = 2 * MINUTE_NS
# Smallest `lame_duck_duration` that may be configured.
LAME_DUCK_DURATION_MIN_NS: Final = 30 * SECOND_NS
# `lame_duck_grace_period`: wait between the announcement and the first close.
LAME_DUCK_GRACE_PERIOD_NS: Final = 10 * SECOND_NS
# `websocket.handshake_timeout`: TLS handshake, request and response together.
WEBSOCKET_HANDSHAKE_TIMEOUT_NS: Final = 2 * SECOND_NS
# `connect_error_reports`: log every n-th failed first connection to a route or leaf (about once an hour).
CONNECT_ERROR_REPORTS: Final = 3600
# `reconnect_error_reports`: log every failed reconnection.
RECONNECT_ERROR_REPORTS: Final = 1
# An authentication timeout above this is probably an unquoted duration; the config loader warns.
AUTH_TIMEOUT_WARN_NS: Final = 60 * SECOND_NS

# --- routes, gateways, leaf nodes, MQTT (configuration only so far) ------------------------------------------------

ROUTE_POOL_SIZE: Final = 3  # connections per peer, so that one busy account does not block the others
ROUTE_PING_INTERVAL_MAX_NS: Final = 30 * SECOND_NS  # routes notice a dead peer sooner than clients
LEAF_RECONNECT_NS: Final = 1 * SECOND_NS
LEAF_FIRST_INFO_TIMEOUT_NS: Final = 1 * SECOND_NS
LEAF_DIAL_TIMEOUT_NS: Final = 1 * SECOND_NS
MQTT_ACK_WAIT_NS: Final = 30 * SECOND_NS
MQTT_JS_API_TIMEOUT_NS: Final = 5 * SECOND_NS
MQTT_MAX_ACK_PENDING: Final = 1024
MQTT_MAX_ACK_PENDING_CEILING: Final = 65_535  # packet identifiers are 16 bit

# --- permissions and service imports -----------------------------------------------------------------------------

# `allow_responses`: replies allowed to one request, and for how long.
ALLOW_RESPONSE_MAX_MSGS: Final = 1
ALLOW_RESPONSE_EXPIRES_NS: Final = 2 * MINUTE_NS
# `response_threshold` of a service export: after this the return path is forgotten.
SERVICE_RESPONSE_THRESHOLD_NS: Final = 2 * MINUTE_NS
# `latency.sampling` in percent when only a subject is given.
SERVICE_LATENCY_SAMPLING: Final = 100

# --- JetStream server options -------------------------------------------------------------------------------------

# `sync_interval` when the interval policy is chosen: nats-server's number.
SYNC_INTERVAL_NS: Final = 2 * MINUTE_NS
# `max_buffered_msgs` / `max_buffered_size`: ingest queue of one stream.
STREAM_MAX_BUFFERED_MSGS: Final = 100_000
STREAM_MAX_BUFFERED_BYTES: Final = 128 * MIB
# `request_queue_limit`, `info_queue_limit`: API requests waiting.
API_REQUEST_QUEUE_LIMIT: Final = 10_000
# Sequences named in an advisory about messages that cannot be read; it says how many there are.
ADVISED_LOST_MAX: Final = 100
# Advisories about API requests that were dropped come at most this often.
API_DROPPED_REPORT_NS: Final = 1 * SECOND_NS
# `max_concurrent_io`: default and the range a config file may ask for.
CONCURRENT_IO: Final = 4096
CONCURRENT_IO_MIN: Final = 4
CONCURRENT_IO_MAX: Final = 8192

# --- configuration files --------------------------------------------------------------------------------------------

# One file: two orders of magnitude above the largest account list seen; keeps a wrong path from filling memory.
CONFIG_FILE_MAX_BYTES: Final = 64 * MIB
# Maps and arrays inside each other. Real files stay below 10; the parser keeps its own stack, this bounds it.
CONFIG_DEPTH_MAX: Final = 128
# `include` inside an included file.
CONFIG_INCLUDE_DEPTH_MAX: Final = 16
# All `include` statements of one load together.
CONFIG_INCLUDES_MAX: Final = 1024
# Errors reported at once; the rest is counted.
CONFIG_ERRORS_MAX: Final = 100
# A variable may refer to another variable this many times before it counts as a cycle.
CONFIG_VARIABLE_DEPTH_MAX: Final = 64

# --- fast client and load generator ---------------------------------------------------------------------------------

# One line from a server. INFO with a few hundred cluster URLs is the longest; MSG heads stay below 4 KiB.
LOADGEN_LINE_BYTES_MAX: Final = 64 * KIB
# One message a decoder keeps in memory: nats-server's recommended ceiling for `max_payload` is 8 MiB.
LOADGEN_FRAME_BYTES_MAX: Final = 64 * MIB
# One pre-encoded batch of publishes, and the replies collected before they are taken.
LOADGEN_BATCH_BYTES_MAX: Final = 256 * MIB

# --- permission checks ------------------------------------------------------------------------------------------------

# Verdicts remembered for one user's permissions, publish and delivery each. nats-server keeps 128 and 256 a
# connection; ours are shared by the connections of a user, so there are more subjects to remember.
PERMISSION_CACHE_MAX: Final = 1024
# Longer subjects are judged each time, so that the cache is small whatever clients send.
PERMISSION_CACHE_SUBJECT_BYTES_MAX: Final = 128
# Open `allow_responses` grants of one connection; the oldest goes first. nats-server prunes after 4096 grants but
# keeps what has not expired, so a responder that never answers could grow without bound there.
RESPONSE_PERMITS_MAX: Final = 16_384

# --- JetStream API -------------------------------------------------------------------------------------------------

# Containers inside each other in a request body: Go's decoder, and so nats-server, refuses deeper ones.
JSON_DEPTH_MAX: Final = 10_000
# Values in one request body that has to be read byte by byte, because something in it is unusual or wrong; plain lists
# of scalars are not counted. About 50 ms.
JSON_VALUES_MAX: Final = 5_000

# --- synchronous client ---------------------------------------------------------------------------------------------

# One operation of the synchronous client (connect, flush, next message) unless the caller says otherwise.
CLIENT_TIMEOUT_NS: Final = 5 * SECOND_NS
# Received and not yet asked for, in one synchronous client; beyond it the caller is told instead of filling memory.
CLIENT_QUEUED_BYTES_MAX: Final = 256 * MIB

# --- routing --------------------------------------------------------------------------------------------------------

# Service requests of one exporting account that wait for an answer; the oldest is forgotten past it.
SERVICE_RESPONSES_MAX: Final = 262_144
# Bytes one read may bring: enough that a busy socket is drained in few system calls, few enough to stay in the cache.
READ_BUFFER_BYTES: Final = 256 * KIB
# Output of one connection that is sent before the turn ends: small enough to be still in the cache.
EARLY_FLUSH_BYTES: Final = 64 * KIB
# Pause of a producer whose message met a receiver near its limit, as long as nats-server stalls at most a read.
PRODUCER_STALL_NS: Final = 10 * MILLISECOND_NS
# What a client may send before its credentials are checked; more is a flood. A larger `max_control_line` raises it.
PRE_AUTH_BYTES: Final = 32 * KIB
# Passwords (bcrypt) checked at the same time: each takes a core for a tenth of a second or more; the rest wait in turn.
PASSWORD_CHECK_THREADS: Final = 2
# Bytes in the name of a stream or consumer: it is a file name and a subject token.
ASSET_NAME_BYTES_MAX: Final = 255
# Bytes in a description, and in all keys and values of the metadata together: they travel in every info response.
ASSET_DESCRIPTION_BYTES_MAX: Final = 4 * KIB
ASSET_METADATA_BYTES_MAX: Final = 128 * KIB
# Copies of a stream: a majority of five survives two failures, more only slows writes down.
STREAM_REPLICAS_MAX: Final = 5
# `duplicate_window` when none is given.
DUPLICATE_WINDOW_NS: Final = 2 * MINUTE_NS
# Smallest `max_age` and `duplicate_window`: timers are not finer.
STREAM_INTERVAL_MIN_NS: Final = 100 * MILLISECOND_NS
# A load job without progress: nothing was taken or delivered for so long, so messages were lost or the server hangs.
LOAD_TIMEOUT_NS: Final = 20 * SECOND_NS
# One load job: connections in one process, below the usual descriptor limit.
LOAD_CONNECTIONS_MAX: Final = 10_000
# Load jobs at the same time, a process each: more would only measure the scheduler.
LOAD_PROCESSES_MAX: Final = 64
# All load jobs of one run together, set-up included.
LOAD_RUN_TIMEOUT_NS: Final = 10 * MINUTE_NS

# --- WebSocket, PROXY protocol, TLS -----------------------------------------------------------------------------------

# Request line and headers of an upgrade. Cookies may hold a user JWT; nats-server allows 1 MiB before any credentials.
WEBSOCKET_REQUEST_BYTES_MAX: Final = 32 * KIB
# Refused requests on one connection; an HTTP client may try again on it, but not for ever.
WEBSOCKET_REQUESTS_MAX: Final = 8
# Smaller output is not worth a deflate stream.
WEBSOCKET_COMPRESS_MIN_BYTES: Final = 64
# Frames to web browsers, which handle small ones better.
WEBSOCKET_BROWSER_FRAME_BYTES: Final = 4096
# One compressed message after inflation: a batch of several publishes, and never more than the absolute bound.
WEBSOCKET_MESSAGE_PAYLOADS_MAX: Final = 8
WEBSOCKET_MESSAGE_BYTES_MAX: Final = 64 * MIB
# What is inflated at once: bounds the memory a deflate bomb can take, whatever its ratio.
WEBSOCKET_INFLATE_STEP_BYTES: Final = 64 * KIB
# Before the client is known: inflated bytes of a connection in all (a CONNECT is one control line), and their ratio
# to the received ones, from the given size on.
WEBSOCKET_EARLY_BYTES_MAX: Final = 32 * KIB
WEBSOCKET_EARLY_RATIO_MAX: Final = 100
WEBSOCKET_EARLY_RATIO_FROM_BYTES: Final = 8 * KIB
# What is inflated at once of a stranger: one control line, so that a CONNECT is acted on before more is looked at.
WEBSOCKET_EARLY_STEP_BYTES: Final = 4 * KIB
# Control frames that wait to be sent: pongs are dropped past this, as RFC 6455 allows.
WEBSOCKET_CONTROL_BYTES_MAX: Final = 64 * KIB
# PROXY protocol: the longest v1 line its specification allows, with CRLF; and the time for the whole header.
PROXY_LINE_BYTES_MAX: Final = 107
PROXY_HEADER_TIMEOUT_NS: Final = 5 * SECOND_NS
# Time between a store's turns of background work (index files, compaction, scrubbing, repair after a fault).
STREAM_UPKEEP_INTERVAL_NS: Final = 1 * SECOND_NS
# The same for a stream where nothing changes: ten thousand idle streams must not keep a core busy.
STREAM_UPKEEP_IDLE_NS: Final = 1 * MINUTE_NS
# Time between two segments read back to look for damage, over all streams of a server: at most 6.4 MiB a second, and a
# terabyte in two days.
SCRUB_INTERVAL_NS: Final = 10 * SECOND_NS
# Header block of a stored message: nats-server keeps its length in 16 bits.
STREAM_HEADER_BYTES_MAX: Final = 65_535
# Messages expired in one go before other work gets its turn: a few milliseconds.
EXPIRE_SLICE_MSGS: Final = 1_000
# Messages removed in one go by a purge, by tighter limits or by age: some milliseconds.
PURGE_SLICE_MSGS: Final = 5_000
# Removed messages that may wait for their commit before long work goes on: that many leave the index in one go.
PURGE_WAITING_MSGS: Final = 10_000
# Sequences looked at in one go for messages to purge.
PURGE_SLICE_SEQS: Final = 1_000_000
# Oldest messages dropped one by one for the place of a new one, or in one go when limits became tighter.
LIMIT_SLICE_MSGS: Final = 1_000
# Subjects looked at in one go when the limit per subject became tighter.
LIMIT_SLICE_SUBJECTS: Final = 1_000
# Earliest next look for expired messages: many short-lived messages must not become many timers.
EXPIRE_INTERVAL_MIN_NS: Final = 20 * MILLISECOND_NS
# Messages read at once when ids, schedules and origins are found again in a log.
HEADER_SCAN_BATCH_MSGS: Final = 1_000
HEADER_SCAN_BATCH_BYTES: Final = 4 * MIB

# --- stream store ---------------------------------------------------------------------------------------------------

# Files the store keeps open at once over all streams; the rest are opened again when needed. A stream in use has two.
# What the kernel keeps for one is about a kilobyte. Where the process may have few descriptors it is a share of those.
STORE_OPEN_FILES_MAX: Final = 65_536
# A segment is closed when it reaches this: the unit of compaction, of an index file, and of one Spark task.
STORE_SEGMENT_BYTES: Final = 64 * MIB
# Smallest segment, for streams with a small max_bytes: space comes back in pieces of this size.
STORE_SEGMENT_BYTES_MIN: Final = 256 * KIB
# Segments a stream of limited size is cut into at least, so that removing the oldest frees a fraction only.
STORE_SEGMENTS_PER_STREAM_MIN: Final = 8
# Space reserved ahead in a segment: at first, and at most in one step.
STORE_ALLOCATE_BYTES_MIN: Final = 128 * KIB
STORE_ALLOCATE_BYTES_MAX: Final = 16 * MIB
# A piece of a unit is begun to be written back from this size on: the sync of the unit has less to wait for.
STORE_WRITE_BACK_BYTES_MIN: Final = 1 * MIB
# Much is written in pieces of this size, so that the device begins with the first before the last is copied.
STORE_WRITE_PIECE_BYTES: Final = 4 * MIB
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
# Closed segments that stay for the message ids of removed messages in them, until the duplicate window has passed.
STORE_REMOVED_KEPT_SEGMENTS: Final = 4
# Sequences named one by one in a report of lost messages; the rest is counted.
STORE_LOST_LISTED_MAX: Final = 100_000
# Journal of consumer states: rewritten when it is larger than this and mostly outdated.
STORE_JOURNAL_BYTES_MIN: Final = 1 * MIB
STORE_JOURNAL_GROWTH: Final = 4
# Records of a memory stream are kept in pieces of this size; a piece is the unit in which memory comes back.
STORE_MEMORY_SLAB_BYTES: Final = 1 * MIB
# Page sizes of the API: names, whole streams, subjects in one stream info. nats-server's numbers; clients page on.
API_NAMES_MAX: Final = 1_024
API_LIST_MAX: Final = 256
SUBJECT_DETAILS_MAX: Final = 100_000
# Deleted sequences listed in one stream info: beyond this the answer would not fit the default payload.
DELETED_DETAILS_MAX: Final = 100_000
# Subjects a `multi_last` direct get may match.
DIRECT_MULTI_LAST_MAX: Final = 1_024

# --- monitoring -----------------------------------------------------------------------------------------------------

# Connections to the monitoring port at once: scrapers, dashboards and probes are few; more is a flood.
MONITOR_CONNECTIONS_MAX: Final = 256
# Request line and headers of a monitoring request, and a body nobody needs.
MONITOR_REQUEST_BYTES_MAX: Final = 64 * KIB
MONITOR_BODY_BYTES_MAX: Final = 64 * KIB
# Time to send a request (nats-server's number), to read its answer, and between two requests.
MONITOR_READ_TIMEOUT_NS: Final = 5 * SECOND_NS
MONITOR_WRITE_TIMEOUT_NS: Final = 30 * SECOND_NS
MONITOR_IDLE_TIMEOUT_NS: Final = 2 * MINUTE_NS
# Options in a request to the system account: a few dozen bytes in earnest. Any client may send them, and reading a
# megabyte of JSON takes a tenth of a second.
SYSTEM_REQUEST_BYTES_MAX: Final = 64 * KIB
# Entries of a page of connections, subscriptions or accounts when no limit is asked for.
MONITOR_PAGE: Final = 1024
# Accounts with metrics of their own: each is several time series for ever.
MONITOR_METRICS_ACCOUNTS_MAX: Final = 1000
# STATSZ events: the first after this, then twice as long each time up to the regular interval.
STATSZ_FIRST_NS: Final = 250 * MILLISECOND_NS
STATSZ_INTERVAL_NS: Final = 10 * SECOND_NS
# Connection counts of an account are repeated after this, for listeners that came late.
ACCOUNT_CONNECTIONS_INTERVAL_NS: Final = 30 * SECOND_NS
# Subscriptions kept of a closed connection; of one that had more only their number is kept.
CLOSED_SUBSCRIPTIONS_MAX: Final = 32

# --- consumers ------------------------------------------------------------------------------------------------------

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
# Filters of one consumer: they are compared with each other when it is made.
CONSUMER_FILTERS_MAX: Final = 4_096
# Pull requests waiting at one consumer, whatever its `max_waiting` says: about 40 MB.
CONSUMER_WAITING_CEILING: Final = 100_000
# Look for gone clients in a full queue of pull requests at most this often.
CONSUMER_WAITING_SWEEP_NS: Final = 1 * SECOND_NS
# Messages and bytes one consumer delivers before other work gets its turn: about two milliseconds.
CONSUMER_SLICE_MSGS: Final = 1_024
CONSUMER_SLICE_BYTES: Final = 1 * MIB
# Messages handed out one by one (several requests, byte budgets, flow control) are read this many at a time.
CONSUMER_CAREFUL_MSGS: Final = 128
# Pause when a receiver is near its limit of pending bytes.
CONSUMER_CONGESTED_NS: Final = 2 * MILLISECOND_NS
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

# --- JetStream in a server ------------------------------------------------------------------------------------------

# Share of the machine's memory, and of the free disk, that streams may use when no limit is configured.
JETSTREAM_MEMORY_SHARE: Final = 0.75
JETSTREAM_DISK_SHARE: Final = 0.75
# Threads for commits: those of different streams wait for the disk side by side. Two a processor, within these bounds;
# more make more and smaller commits of the same messages (1,000 streams on 2 cores: 16 give 0.75 of what 4 do).
COMMIT_THREADS_MIN: Final = 4
COMMIT_THREADS_MAX: Final = 16
# Threads for all other file work, which may take a second each: upkeep, reads in bulk, backups.
FILE_THREADS: Final = 12
# Monitoring work: entries of a page built before messages get their turn (some milliseconds), the share of the event
# loop's time it may take in the long run, the time it may take at once, and jobs that may wait for that.
MONITOR_STEP_ENTRIES: Final = 256
MONITOR_SHARE_PERCENT: Final = 25
MONITOR_BURST_NS: Final = 500 * MILLISECOND_NS
MONITOR_JOBS_MAX: Final = 1000
# Lines in the log about requests that are lost because of that: strangers can cause them.
MONITOR_COMPLAINT_INTERVAL_NS: Final = 10 * SECOND_NS
# A commit without sync of so few bytes is written on the loop: less work than waking a thread and being woken by it.
STORE_INLINE_BYTES_MAX: Final = 256 * KIB
# Bytes read for one message that is asked for alone: a page, because its neighbours are often asked for next.
STORE_POINT_READ_BYTES: Final = 4 * KIB

# --- mirrors and sources ---------------------------------------------------------------------------------------------

# A stream asks an origin for a consumer at most this often; after failures it waits so much longer for each, up to the
# maximum. Attempts are spread by once to twice the jitter: many streams shall not ask at once. nats-server's numbers.
SOURCE_RETRY_NS: Final = 2 * SECOND_NS
SOURCE_BACKOFF_NS: Final = 10 * SECOND_NS
SOURCE_BACKOFF_MAX_NS: Final = 2 * MINUTE_NS
SOURCE_JITTER_NS: Final = 100 * MILLISECOND_NS
# How long an answer may take, from a consumer to be made and from one that exists.
SOURCE_TIMEOUT_NS: Final = 30 * SECOND_NS
SOURCE_LASTING_TIMEOUT_NS: Final = 5 * SECOND_NS
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

# Small facts a store keeps beside its messages; all of them are repeated at the head of every segment.
STORE_NOTES_MAX: Final = 1_024
STORE_NOTE_BYTES_MAX: Final = 1 * KIB

# --- bulk reads and writes --------------------------------------------------------------------------------------------

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
# When other clients were heard so often in this time, half as many chunks as there are processors are read in each
# span, none larger than this: on two processors a publish that waits for its sync then takes about twice as long, 99
# times of 100.
BULK_HEARD_NS: Final = 20 * MILLISECOND_NS
BULK_HEARD_READS: Final = 4
BULK_SPAN_NS: Final = 1 * MILLISECOND_NS
BULK_BESIDE_CHUNK_BYTES: Final = 96 * KIB
# Readers that look at files themselves are asked to pause this long instead, and do so after so many bytes; so much is
# named to them at once. Longer pauses than the last of these are not made.
BULK_PAUSE_NS: Final = 250 * MICROSECOND_NS
BULK_PAUSE_BYTES: Final = 32 * KIB
BULK_PAUSED_PLACES_BYTES: Final = 1 * MIB
BULK_PAUSE_NS_MAX: Final = 20 * MILLISECOND_NS
# They hear of it this much later at most, as long as they were heard themselves in this time.
BULK_WATCH_NS: Final = 5 * MILLISECOND_NS
BULK_WATCHED_NS: Final = 1 * SECOND_NS
# A reader that confirms nothing for so long is dropped; whether it is still there is looked at this often.
BULK_READER_IDLE_NS: Final = 10 * MINUTE_NS
BULK_SWEEP_NS: Final = 5 * SECOND_NS
# Pause when a reader's connection is near its limit of pending bytes.
BULK_CONGESTED_NS: Final = 2 * MILLISECOND_NS
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
# What a reader on this machine is told at once to look up in files itself: so many chunks, messages (a fifth of a
# millisecond to choose), stretches without gaps, their bytes at most (it looks at heads first, then at everything: that
# should be in a cache by then; it is more than what lies between two marks of bulk commits) and on average at least,
# and files. When that is not how they lie, it is tried again after so many chunks. The last are the files kept open for
# such a reader: more than are in its window.
BULK_PLACES_CHUNKS: Final = 16
BULK_PLACES_MSGS_MAX: Final = 32_768
BULK_PLACES_MAX: Final = 64
BULK_PLACE_BYTES_MAX: Final = 384 * KIB
BULK_PLACE_BYTES_MIN: Final = 4 * KIB
BULK_PLACES_FILES_MAX: Final = 2
BULK_PLACES_AGAIN: Final = 8
BULK_LENT_FILES_MAX: Final = 16
# A chunk is begun again so often when files change under it.
BULK_STALE_MAX: Final = 3
# Messages read at once, and one by one, where a chunk could not be copied.
BULK_SLOW_MSGS: Final = 1_024
# Subject filters of one request, and the damaged ranges named in one answer.
BULK_FILTERS_MAX: Final = 256
BULK_LOST_LISTED_MAX: Final = 1_000
# Splits of one plan, and the marks it is made from: precision against time. A quarter of the marks is left after they
# were merged, so pieces differ by a sixty-fourth.
BULK_SPLITS_MAX: Final = 4_096
BULK_MARKS_A_SPLIT: Final = 256
BULK_MARKS_MAX: Final = 16_384
# Staged parts: how long one is kept without being committed, at least and at most (and by default), and how long one
# may be written without a byte coming.
BULK_STAGE_NS_MIN: Final = 1 * MINUTE_NS
BULK_STAGE_NS: Final = 24 * 60 * MINUTE_NS
BULK_STAGE_IDLE_NS: Final = 10 * MINUTE_NS
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
# Holds on one stream, how long one may last without being renewed, and how far a stream may outgrow its limits by
# holds, as a multiple of them: then the oldest hold is dropped.
BULK_HOLDS_MAX: Final = 64
BULK_HOLD_NS_MAX: Final = 24 * 60 * MINUTE_NS
BULK_HOLD_OVERSHOOT: Final = 2

# --- batches and schedules --------------------------------------------------------------------------------------------

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
# A fast batch that is alone is acknowledged this often at least, in messages.
FAST_BATCH_ACK_EVERY_MAX: Final = 500
# Schedules are looked at this often at most, so that they do not keep publishers waiting; so many fire in one turn.
SCHEDULE_INTERVAL_MIN_NS: Final = 250 * MILLISECOND_NS
SCHEDULE_SLICE_MSGS: Final = 1_000
# A schedule that could not be published is tried again after this time.
SCHEDULE_RETRY_NS: Final = 1 * SECOND_NS
# Time zones kept in memory; there are about six hundred names.
SCHEDULE_ZONES_MAX: Final = 1_024

# --- backups ----------------------------------------------------------------------------------------------------------

# Chunks of a backup: default, least and largest size, and how many bytes may be unconfirmed. nats-server's numbers.
BACKUP_CHUNK_BYTES: Final = 128 * KIB
BACKUP_CHUNK_BYTES_MIN: Final = 1 * KIB
BACKUP_CHUNK_BYTES_MAX: Final = 1 * MIB
BACKUP_WINDOW_BYTES: Final = 8 * MIB
BACKUP_WINDOW_BYTES_MAX: Final = 32 * MIB
# How long to wait for somebody to listen, for a chunk to be confirmed, and for the next chunk of what is restored.
BACKUP_INTEREST_NS: Final = 2 * SECOND_NS
BACKUP_CONFIRM_NS: Final = 5 * SECOND_NS
BACKUP_SILENCE_NS: Final = 5 * SECOND_NS
# Backups and restores of one account at the same time: each holds a window in memory.
BACKUPS_MAX: Final = 8
# Messages and bytes read for a backup before other work gets its turn: about a millisecond.
BACKUP_SLICE_MSGS: Final = 8_192
BACKUP_SLICE_BYTES: Final = 1 * MIB
# Bytes restored between two commits.
RESTORE_COMMIT_BYTES: Final = 4 * MIB
# Largest name and content of an entry that is believed: a name is a subject, the content a message or a configuration.
BACKUP_NAME_BYTES_MAX: Final = 64 * KIB
BACKUP_ENTRY_BYTES_MAX: Final = 128 * MIB
# A read this short is a client that waits for answers. If no other client makes work for the end of the turn, the turn
# ends with it: what a publisher waits for leaves one round of the event loop earlier.
LONE_READ_BYTES_MAX: Final = 4 * KIB
# So many turns in a row with one client that made work let the next one be taken to be alone in its turn as well, and
# one turn in so many is looked at to see whether that still holds. Few: a wrong guess only means more small commits.
LONE_TURNS_MIN: Final = 8
