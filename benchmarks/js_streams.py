"""Streams for benchmarks: make them, ask how many messages they hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.scenario import MessagesMissing
from slipstream.client.options import ClientError
from slipstream.client.wire import WireClient

__all__ = ["StreamAdmin"]


class StreamAdmin:
    """A connection that manages streams."""

    def __init__(self, url: str) -> None:
        """Use the server's global account; a connection is made for each call."""
        self._url = url

    def make(self, names: Sequence[str], storage: str, subjects: str = "{}.>") -> None:
        """Create streams; `{}` in the subject stands for the stream's name.

        Raises:
            ClientError: the server refused one.
        """
        with WireClient(self._url) as client:
            for name in names:
                config = {"name": name, "subjects": [subjects.format(name)], "storage": storage, "allow_direct": True}
                _call(client, f"STREAM.CREATE.{name}", config)

    def delete(self, names: Sequence[str]) -> None:
        """Delete streams."""
        with WireClient(self._url) as client:
            for name in names:
                _call(client, f"STREAM.DELETE.{name}", None)

    def messages(self, name: str) -> int:
        """How many messages a stream holds."""
        with WireClient(self._url) as client:
            return int(_call(client, f"STREAM.INFO.{name}", None)["state"]["messages"])

    def check(self, name: str, expected: int) -> None:
        """Make sure that a stream holds what was published into it.

        Raises:
            MessagesMissing: it holds another number of messages.
        """
        found = self.messages(name)
        if found != expected:
            raise MessagesMissing(f"stream {name} holds {found} messages instead of {expected}")


def _call(client: WireClient, subject: str, body: dict[str, object] | None) -> dict[str, Any]:
    payload = json.dumps(body).encode() if body is not None else b""
    answer: dict[str, Any] = json.loads(client.request(f"$JS.API.{subject}", payload).payload)
    if "error" in answer:
        raise ClientError(f"{subject}: {answer['error'].get('description')}")
    return answer
