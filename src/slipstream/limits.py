"""Numbers that clients or operators see: defaults of options, bounds that answers name, what several packages share.

An operator changes the ones that are also options in a config file (the comment names the option); the constant here is
the default or the hard bound behind it. What bounds the work of one package is in that package's `limits.py`.

A constant is named for what it bounds, its unit comes last, and the comment says why that number. Durations are integer
nanoseconds.
"""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, MIB, MICROSECOND_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

# --- listeners -------------------------------------------------------------------------------------------------------

DEFAULT_HOST: Final = "0.0.0.0"  # all interfaces, as nats-server
DEFAULT_PORT: Final = 4222  # the port every NATS client tries first
RANDOM_PORT: Final = -1  # in a config file or flag: let the kernel choose
# Connections that wait to be accepted while the loop is busy. Past it the kernel drops the attempt and the client's
# repeats it after a second, so the number is the most that systems allow by default.
LISTEN_BACKLOG: Final = 4096

# --- client protocol -------------------------------------------------------------------------------------------------

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

# --- connections and timers ------------------------------------------------------------------------------------------

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

# --- routes, gateways, leaf nodes, MQTT ------------------------------------------------------------------------------

ROUTE_POOL_SIZE: Final = 3  # connections per peer, so that one busy account does not block the others
ROUTE_PING_INTERVAL_MAX_NS: Final = 30 * SECOND_NS  # routes notice a dead peer sooner than clients
GATEWAY_PING_INTERVAL_MAX_NS: Final = 15 * SECOND_NS  # and gateways sooner than routes
LEAF_RECONNECT_NS: Final = 1 * SECOND_NS
LEAF_FIRST_INFO_TIMEOUT_NS: Final = 1 * SECOND_NS
LEAF_DIAL_TIMEOUT_NS: Final = 1 * SECOND_NS
MQTT_ACK_WAIT_NS: Final = 30 * SECOND_NS
MQTT_JS_API_TIMEOUT_NS: Final = 5 * SECOND_NS
MQTT_MAX_ACK_PENDING: Final = 1024
MQTT_MAX_ACK_PENDING_CEILING: Final = 65_535  # packet identifiers are 16 bit

# --- permissions and service imports ---------------------------------------------------------------------------------

# `allow_responses`: replies allowed to one request, and for how long.
ALLOW_RESPONSE_MAX_MSGS: Final = 1
ALLOW_RESPONSE_EXPIRES_NS: Final = 2 * MINUTE_NS
# `response_threshold` of a service export: after this the return path is forgotten.
SERVICE_RESPONSE_THRESHOLD_NS: Final = 2 * MINUTE_NS
# `latency.sampling` in percent when only a subject is given.
SERVICE_LATENCY_SAMPLING: Final = 100

# --- JetStream server options ----------------------------------------------------------------------------------------

# `sync_interval` when the interval policy is chosen: nats-server's number.
SYNC_INTERVAL_NS: Final = 2 * MINUTE_NS
# `max_buffered_msgs` / `max_buffered_size`: ingest queue of one stream.
STREAM_MAX_BUFFERED_MSGS: Final = 100_000
STREAM_MAX_BUFFERED_BYTES: Final = 128 * MIB
# `request_queue_limit`, `info_queue_limit`: API requests waiting.
API_REQUEST_QUEUE_LIMIT: Final = 10_000
# `audit.max_bytes`: some hundred thousand actions. Less than the least would turn over within a day of work.
AUDIT_MAX_BYTES: Final = 256 * MIB
AUDIT_MAX_BYTES_MIN: Final = 1_000_000
# `audit.max_age`: shorter ages are mistakes.
AUDIT_MAX_AGE_MIN_NS: Final = SECOND_NS
# Sequences named in an advisory about messages that cannot be read; it says how many there are.
ADVISED_LOST_MAX: Final = 100
# Advisories about API requests that were dropped come at most this often.
API_DROPPED_REPORT_NS: Final = 1 * SECOND_NS
# `max_concurrent_io`: default and the range a config file may ask for.
CONCURRENT_IO: Final = 4096
CONCURRENT_IO_MIN: Final = 4
CONCURRENT_IO_MAX: Final = 8192

# --- configuration files ---------------------------------------------------------------------------------------------

# One file: two orders of magnitude above the largest account list seen; keeps a wrong path from filling memory.
CONFIG_FILE_MAX_BYTES: Final = 64 * MIB

# --- fast client and load generator ----------------------------------------------------------------------------------

# One line from a server. INFO with a few hundred cluster URLs is the longest; MSG heads stay below 4 KiB.
LOADGEN_LINE_BYTES_MAX: Final = 64 * KIB
# One message a decoder keeps in memory: nats-server's recommended ceiling for `max_payload` is 8 MiB.
LOADGEN_FRAME_BYTES_MAX: Final = 64 * MIB
# One pre-encoded batch of publishes, and the replies collected before they are taken.
LOADGEN_BATCH_BYTES_MAX: Final = 256 * MIB

# --- WebSocket, PROXY protocol, TLS ----------------------------------------------------------------------------------

# PROXY protocol: the longest v1 line its specification allows, with CRLF; and the time for the whole header.
PROXY_LINE_BYTES_MAX: Final = 107
PROXY_HEADER_TIMEOUT_NS: Final = 5 * SECOND_NS
# Header block of a stored message: nats-server keeps its length in 16 bits.
STREAM_HEADER_BYTES_MAX: Final = 65_535

# --- bulk reads and writes -------------------------------------------------------------------------------------------

# Readers that look at files themselves are asked to pause this long instead, and do so after so many bytes; so much is
# named to them at once. Longer pauses than the last of these are not made.
BULK_PAUSE_NS: Final = 250 * MICROSECOND_NS
BULK_PAUSE_BYTES: Final = 32 * KIB
BULK_PAUSED_PLACES_BYTES: Final = 1 * MIB
BULK_PAUSE_NS_MAX: Final = 20 * MILLISECOND_NS
# Staged parts: how long one is kept without being committed, at least and at most (and by default), and how long one
# may be written without a byte coming.
BULK_STAGE_NS_MIN: Final = 1 * MINUTE_NS
BULK_STAGE_NS: Final = 24 * 60 * MINUTE_NS
BULK_STAGE_IDLE_NS: Final = 10 * MINUTE_NS
# Holds on one stream, how long one may last without being renewed, and how far a stream may outgrow its limits by
# holds, as a multiple of them: then the oldest hold is dropped.
BULK_HOLDS_MAX: Final = 64
# Characters in which a holder says who it is.
BULK_HOLDER_MAX: Final = 256
BULK_HOLD_NS_MAX: Final = 24 * 60 * MINUTE_NS
BULK_HOLD_OVERSHOOT: Final = 2

# --- backups ---------------------------------------------------------------------------------------------------------

# Bytes restored between two commits.
RESTORE_COMMIT_BYTES: Final = 4 * MIB
