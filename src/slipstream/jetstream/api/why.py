"""CONSUMER.WHY: why a consumer delivers nothing now (ADR 92)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.jetstream.consumer.why import Cause, causes, offline
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson.times import format_time

__all__ = ["WhyApi"]


class WhyApi:
    """The one handler."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher) -> None:
        """Register it."""
        self._account = account
        api.register("CONSUMER.WHY.*.*", "consumer_why_response", self.why)

    def why(self, request: ApiRequest) -> Mapping[str, object]:
        """All causes as they are this moment: unlike INFO it waits for no commit, for that may be what is missing."""
        if not bodies.is_empty(request.body):
            raise TableError(table.NOT_EMPTY_REQUEST)
        return {
            "stream_name": request.names[0],
            "name": request.names[1],
            "causes": [_fields(cause) for cause in self._causes(*request.names)],
            "ts": format_time(self._account.ports.now_ns()),
        }

    def _causes(self, stream: str, name: str) -> Sequence[Cause]:
        if stream in self._account.offline:
            return [offline("stream", self._account.offline[stream])]
        consumers = self._account.get_stream(stream).interest
        assert isinstance(consumers, Consumers)
        if name in consumers.offline:
            return [offline("consumer", consumers.offline[name])]
        return causes(consumers.get(name))


def _fields(cause: Cause) -> dict[str, object]:
    fields: dict[str, object] = {"cause": cause.code, "kind": cause.kind.value, "text": cause.text}
    if cause.until_ns:
        fields["until"] = format_time(cause.until_ns)
    return fields
