"""Numbers that bound what `protocol` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, MIB

# What a client may send before its credentials are checked; more is a flood. A larger `max_control_line` raises it.
PRE_AUTH_BYTES: Final = 32 * KIB

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
# What of the stream to another server goes into one compressed message: its limit for one is not known here.
WEBSOCKET_LINK_MESSAGE_BYTES: Final = 256 * KIB
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

# Subscriptions kept of a closed connection; of one that had more only their number is kept.
CLOSED_SUBSCRIPTIONS_MAX: Final = 32
