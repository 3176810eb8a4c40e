"""The bytes a publisher gets back. Exact: clients and their tests compare them."""

from __future__ import annotations

from slipstream.errors import ApiError
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.gojson.scan import go_quote

__all__ = ["PubAcks"]


class PubAcks:
    """Answers of one stream, with what never changes built once."""

    __slots__ = ("_error_tail", "is_preview", "prefix")

    def __init__(self, stream: str, domain: str, *, preview: bool = False) -> None:
        """Prepare for a stream; the domain is named only when there is one. `preview`: as JetStream's preview did."""
        self.is_preview = preview
        named = f'{{"stream":{go_quote(stream)},'
        if domain:
            named += f'"domain":{go_quote(domain)},'
        self.prefix = named.encode() + b'"seq":'
        self._error_tail = b',"stream":' + encode(stream) + b',"seq":0}'

    def stored(self, seq: int) -> bytes:
        """The message has this sequence."""
        if self.is_preview:
            return b"+OK"
        return self.prefix + b"%d}" % seq

    def duplicate(self, seq: int) -> bytes:
        """The message was stored before, with this sequence. The blank is nats-server's."""
        if self.is_preview:
            return b"+OK"
        return self.prefix + b'%d,"duplicate": true}' % seq

    def refused(self, error: ApiError) -> bytes:
        """The message was not stored."""
        if self.is_preview:
            return b"-ERR '%b'" % error.description.encode()
        return b'{"error":' + encode(error_object(error)) + self._error_tail


def error_object(error: ApiError) -> dict[str, object]:
    """The `error` member of every JetStream answer."""
    return {"code": error.code, "err_code": error.err_code, "description": error.description}
