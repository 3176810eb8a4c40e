"""The plain model of the hand-out kernel: one message after the other, as frames."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.kernels.log.record import StoredMessage


def frames(
    messages: Sequence[StoredMessage],
    targets: Sequence[bytes],
    sids: dict[bytes, bytes],
    prefix: bytes,
    dseq: int,
    pending: int,
    max_bytes: int,
    *,
    headers_only: bool = False,
) -> tuple[bytes, tuple[int, int, int]]:
    """What clients that listen on `sids` receive, and what the kernel returns."""
    out, total, size = b"", 0, 0
    for count, (message, target) in enumerate(zip(messages, targets, strict=True), 1):
        reply = b"%b%d.%d.%d.%d" % (prefix, message.seq, dseq + count, message.ts_ns, max(pending - count, 0))
        headers, payload = message.headers, message.payload
        if headers_only:
            lines = headers[:-2] if headers else b"NATS/1.0\r\n"
            headers, payload = lines + b"Nats-Msg-Size: %d\r\n\r\n" % len(payload), b""
        size = len(message.subject) + len(reply) + len(headers) + len(payload)
        total += size
        if target in sids:
            body = headers + payload
            sizes = b"%d %d" % (len(headers), len(body)) if headers else b"%d" % len(body)
            verb = b"HMSG" if headers else b"MSG"
            out += b"%b %b %b %b %b\r\n%b\r\n" % (verb, message.subject, sids[target], reply, sizes, body)
        if total > max_bytes:
            return out, (count, total, size)
    return out, (len(messages), total, size)
