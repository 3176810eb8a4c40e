"""The delay that a client may ask for with `-NAK`."""

from __future__ import annotations

import msgspec

from slipstream.jetstream.gojson.bind import Field, GoStruct
from slipstream.jetstream.gojson.scalars import DURATION
from slipstream.jetstream.gojson.scan import JsonError
from slipstream.jetstream.gojson.times import parse_duration

__all__ = ["nak_delay_ns"]


class _Nak(msgspec.Struct, kw_only=True):
    delay_ns: int = 0


_NAK = GoStruct("ConsumerNakOptions", _Nak, [Field("delay", DURATION, attribute="delay_ns")])


def nak_delay_ns(argument: bytes) -> int | None:
    """The delay behind `-NAK`: JSON or a Go duration; None if it is neither."""
    try:
        if argument.startswith(b"{"):
            return _NAK.decode(argument, strict=False).delay_ns
        return parse_duration(argument.decode())
    except (JsonError, UnicodeDecodeError):
        return None
