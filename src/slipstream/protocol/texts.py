"""What the server says when it refuses or closes: texts that clients and monitoring tools compare letter by letter.

`-ERR` texts stand between single quotes on the wire. Clients close for good on a text they do not know, so none is
ever invented. `CloseReason` is what `/connz?state=closed` and the disconnect event show.
"""

from __future__ import annotations

from enum import Enum

__all__ = [
    "ACCOUNT_AUTHENTICATION_EXPIRED",
    "AUTHENTICATION_EXPIRED",
    "AUTHENTICATION_REVOKED",
    "AUTHENTICATION_TIMEOUT",
    "AUTHORIZATION_VIOLATION",
    "INVALID_CLIENT_PROTOCOL",
    "INVALID_PUBLISH_SUBJECT",
    "INVALID_SUBJECT",
    "MAXIMUM_ACCOUNT_CONNECTIONS",
    "MAXIMUM_CONNECTIONS",
    "MAXIMUM_CONTROL_LINE",
    "MAXIMUM_PAYLOAD",
    "MAXIMUM_SUBSCRIPTIONS",
    "NO_RESPONDERS_NEEDS_HEADERS",
    "STALE_CONNECTION",
    "TLS_REQUIRED",
    "UNKNOWN_OPERATION",
    "CloseReason",
    "error_line",
    "escaped",
    "publish_violation",
    "quoted",
    "quoted_text",
    "reply_violation",
    "subscription_violation",
]

ACCOUNT_AUTHENTICATION_EXPIRED = "Account Authentication Expired"
AUTHENTICATION_EXPIRED = "User Authentication Expired"
AUTHENTICATION_REVOKED = "User Authentication Revoked"
AUTHENTICATION_TIMEOUT = "Authentication Timeout"
AUTHORIZATION_VIOLATION = "Authorization Violation"
INVALID_CLIENT_PROTOCOL = "invalid client protocol"
INVALID_PUBLISH_SUBJECT = "Invalid Publish Subject"
INVALID_SUBJECT = "Invalid Subject"
MAXIMUM_ACCOUNT_CONNECTIONS = "maximum account active connections exceeded"
MAXIMUM_CONNECTIONS = "maximum connections exceeded"
MAXIMUM_CONTROL_LINE = "maximum control line exceeded"
MAXIMUM_PAYLOAD = "Maximum Payload Violation"
MAXIMUM_SUBSCRIPTIONS = "maximum subscriptions exceeded"
NO_RESPONDERS_NEEDS_HEADERS = "no responders requires headers support"
STALE_CONNECTION = "Stale Connection"
TLS_REQUIRED = "Secure Connection - TLS Required"
UNKNOWN_OPERATION = "Unknown Protocol Operation"


class CloseReason(Enum):
    """Why a connection ended; the value is the text that monitoring shows."""

    CLIENT_CLOSED = "Client Closed"
    AUTHENTICATION_TIMEOUT = "Authentication Timeout"
    AUTHENTICATION_VIOLATION = "Authentication Failure"
    TLS_HANDSHAKE_ERROR = "TLS Handshake Failure"
    SLOW_CONSUMER_PENDING = "Slow Consumer (Pending Bytes)"
    SLOW_CONSUMER_WRITE_DEADLINE = "Slow Consumer (Write Deadline)"
    WRITE_ERROR = "Write Error"
    READ_ERROR = "Read Error"
    PARSE_ERROR = "Parse Error"
    STALE_CONNECTION = "Stale Connection"
    PROTOCOL_VIOLATION = "Protocol Violation"
    BAD_CLIENT_PROTOCOL_VERSION = "Bad Client Protocol Version"
    WRONG_PORT = "Incorrect Port"
    MAX_CONNECTIONS = "Maximum Connections Exceeded"
    MAX_ACCOUNT_CONNECTIONS = "Maximum Account Connections Exceeded"
    MAX_PAYLOAD = "Maximum Message Payload Exceeded"
    MAX_CONTROL_LINE = "Maximum Control Line Exceeded"
    MAX_SUBSCRIPTIONS = "Maximum Subscriptions Exceeded"
    SERVER_SHUTDOWN = "Server Shutdown"
    AUTHENTICATION_EXPIRED = "Authentication Expired"
    MISSING_ACCOUNT = "Missing Account"
    REVOCATION = "Credentials Revoked"
    HEADER_VIOLATION = "Message Header Violation"
    NO_RESPONDERS_NEEDS_HEADERS = "No Responders Requires Headers"
    KICKED = "Kicked"
    WRONG_GATEWAY = "Wrong Gateway"
    DUPLICATE_ROUTE = "Duplicate Route"
    ROUTE_REMOVED = "Route Removed"
    DUPLICATE_SERVER_NAME = "Duplicate Server Name"
    CLUSTER_NAME_CONFLICT = "Cluster Name Conflict"
    DUPLICATE_LEAFNODE = "Duplicate Remote LeafNode Connection"
    MINIMUM_VERSION = "Minimum Version Required"
    CLUSTER_NAMES_IDENTICAL = "Cluster Names Identical"
    PROXY_NOT_TRUSTED = "Proxy Not Trusted"
    PROXY_REQUIRED = "Proxy Required"


def error_line(text: str) -> bytes:
    """The `-ERR` line for `text`."""
    return f"-ERR '{text}'\r\n".encode("utf-8", "surrogateescape")


def escaped(text: str) -> str:
    """A text as one line of printable characters, whatever a peer put into it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def quoted(name: bytes) -> str:
    """A name a peer sent, inside a text that goes back to it: escaped as Go's `%q` would."""
    return quoted_text(name.decode("utf-8", "surrogateescape"))


def quoted_text(text: str) -> str:
    """The same for one that was decoded."""
    if text.isprintable() and "\\" not in text and '"' not in text:
        return f'"{text}"'
    return '"' + "".join(c if c.isprintable() and c not in _ESCAPES else _escape(c) for c in text) + '"'


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\r": "\\r", "\n": "\\n", "\t": "\\t"}


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF or code < 0x80:
        # A byte that is not UTF-8, or a control byte.
        return _ESCAPES.get(char) or f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def publish_violation(subject: bytes) -> str:
    """Said to a client that may not publish to `subject`."""
    return f"Permissions Violation for Publish to {quoted(subject)}"


def reply_violation(reply: bytes) -> str:
    """Said to a client that names a reply subject of the server's own."""
    return f"Permissions Violation for Publish with Reply of {quoted(reply)}"


def subscription_violation(subject: bytes, queue: bytes | None, *, sid: bytes | None = None) -> str:
    """Said to a client that may not subscribe, or (with its sid) no longer may."""
    text = f"Permissions Violation for Subscription to {quoted(subject)}"
    if queue is not None:
        text += f" using queue {quoted(queue)}"
    if sid is not None:
        text += f" (sid {quoted(sid)})"
    return text
