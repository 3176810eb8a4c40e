"""The subjects of the API, and the types of its answers."""

from __future__ import annotations

from typing import Final

__all__ = ["API_PREFIX", "API_SUBSCRIPTIONS", "TYPE_PREFIX", "keeps_silent"]

API_PREFIX: Final = "$JS.API."
TYPE_PREFIX: Final = "io.nats.jetstream.api.v1."
# What the server subscribes to for the dispatcher: all of the API but what streams and consumers answer themselves.
API_SUBSCRIPTIONS: Final = (
    "$JS.API.*",
    "$JS.API.STREAM.>",
    "$JS.API.META.>",
    "$JS.API.SERVER.>",
    "$JS.API.ACCOUNT.>",
    "$JS.API.BULK.>",
    *(
        f"$JS.API.CONSUMER.{verb}.>"
        for verb in (
            "CREATE",
            "DURABLE",
            "NAMES",
            "LIST",
            "INFO",
            "WHY",
            "DELETE",
            "PAUSE",
            "LEADER",
            "UNPIN",
            "RESET",
        )
    ),
)

_ANSWERED_BY_STREAMS: Final = (f"{API_PREFIX}DIRECT.GET.", f"{API_PREFIX}CONSUMER.MSG.NEXT.")


def keeps_silent(subject: bytes) -> bool:
    """Whether a request that nobody took is met with silence instead of "no responders", as with nats-server.

    That is all of `$JS.API.` but what streams and consumers would have answered.
    """
    text = subject.decode("utf-8", "replace")
    if not text.startswith(API_PREFIX) or text == f"{API_PREFIX}DIRECT.GET":
        return False
    return not text.startswith(_ANSWERED_BY_STREAMS)
