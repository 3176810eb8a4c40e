"""Numbers that bound the HTTP API."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, SECOND_NS

# A request line and its headers; what other web servers allow.
HEAD_BYTES_MAX: Final = 16 * KIB
# What is remembered of a connection: header lines of requests, by their bytes, and request lines; and of a port: heads
# of answers.
KNOWN_HEADS_MAX: Final = 8
KNOWN_HEAD_BYTES_MAX: Final = 2 * KIB
KNOWN_LINES_MAX: Final = 64
KNOWN_ANSWERS_MAX: Final = 256
# What of a body is awaited behind a known head before h11 is asked.
KNOWN_BODY_BYTES_MAX: Final = 64 * KIB
# NATS headers of one message that come from HTTP headers; they count against the payload as well.
HEADERS_MAX: Final = 64
# How long a client may take with each step of a connection.
HEAD_TIMEOUT_NS: Final = 10 * SECOND_NS
BODY_TIMEOUT_NS: Final = 60 * SECOND_NS
IDLE_TIMEOUT_NS: Final = 75 * SECOND_NS  # between two requests: a bit more than proxies keep theirs
WRITE_TIMEOUT_NS: Final = 30 * SECOND_NS
# How long an answer of NATS is awaited, if the request does not say.
ANSWER_TIMEOUT_NS: Final = 5 * SECOND_NS
ANSWER_TIMEOUT_MAX_NS: Final = 120 * SECOND_NS
# A stream of events says so often that it lives; three times without a word of the consumer end it.
HEARTBEAT_NS: Final = 5 * SECOND_NS
HEARTBEATS_MISSED: Final = 3
# Connections at a time; those that logged in count as clients, too.
CONNECTIONS_MAX: Final = 4096
