"""Stored messages published again under another subject, after their commit, with where they came from in headers."""

from __future__ import annotations

from slipstream.errors import ApiError
from slipstream.jetstream.config.structs import RepublishConfig
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.stream.commit.point import AfterCommit
from slipstream.kernels.subjects.subject import is_valid_publish
from slipstream.subjects.outside import outside_only
from slipstream.subjects.transform import SubjectTransform

__all__ = ["Republisher"]


class Republisher:
    """The republish rule of one stream."""

    __slots__ = ("_headers_only", "_outside", "_ports", "_stream", "_transform")

    def __init__(self, stream: str, config: RepublishConfig, ports: Ports) -> None:
        """Republish as `config`, which was checked, says."""
        self._stream = stream.encode()
        self._ports = ports
        self._headers_only = config.headers_only
        self._outside = config.outside
        self._transform = SubjectTransform(config.src.encode(), config.dest.encode()) if config.dest else None

    def effect(
        self, seq: int, ts_ns: int, subject: bytes, header: bytes, payload: bytes, previous_seq: int
    ) -> AfterCommit | None:
        """What to do after the commit of a message; None if it is not republished.

        Args:
            seq: sequence of the message.
            ts_ns: its time.
            subject: the subject it is stored under.
            header: its header block, or `b""`.
            payload: its body.
            previous_seq: sequence of the message before it on the same subject, for gap detection.
        """
        if self._transform is None or not is_valid_publish(subject):
            return None
        target = self._transform.find(subject, self._ports.random_below)
        if target is None or not is_valid_publish(target):
            return None
        lines = b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n" % (
            self._stream,
            subject,
            seq,
            format_time(ts_ns).encode(),
        )
        lines += b"Nats-Last-Sequence: %d\r\n" % previous_seq
        body = payload
        if self._headers_only:
            lines += b"Nats-Msg-Size: %d\r\n" % len(payload)
            body = b""
        block = (header[:-2] if header else b"NATS/1.0\r\n") + lines + b"\r\n"
        target = outside_only(target) if self._outside else target
        publish = self._ports.publish

        def send(error: ApiError | None) -> None:
            if error is None:
                publish(target, None, block, body)

        return send
