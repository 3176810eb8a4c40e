"""JSON as Go's `encoding/json` reads and writes it, because clients compare nats-server's texts and bytes."""

from slipstream.jetstream.gojson.encode import encode
from slipstream.jetstream.gojson.scan import JsonError, JsonSyntaxError

__all__ = ["JsonError", "JsonSyntaxError", "encode"]
