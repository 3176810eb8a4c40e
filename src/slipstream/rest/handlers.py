"""Which handler a request goes to."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.rest.buckets import delete_key, get_key, list_keys, put_key
from slipstream.rest.call import ApiCall
from slipstream.rest.messages import get_message, read_messages
from slipstream.rest.publishing import lone_publish, publish, request
from slipstream.rest.steps import HttpProblem, PublishStep, Steps

__all__ = ["METHODS", "publish_of", "steps_of"]

Handler = Callable[[ApiCall], Steps]

METHODS = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
_VERSION = "v1"


def steps_of(call: ApiCall) -> Steps:
    """The handler of a request, begun but not yet run.

    Raises:
        HttpProblem: there is none, or none for this method.
    """
    table = _table(call.path)
    handler = table.get("GET" if call.method == "HEAD" else call.method)
    if handler is None:
        raise HttpProblem(405 if table else 404, "method not allowed" if table else "no such path")
    return handler(_below(call))


def publish_of(call: ApiCall) -> PublishStep | None:
    """What a request publishes that does nothing else; None for any other.

    Raises:
        HttpProblem: it is not in order.
    """
    return lone_publish(_below(call)) if _table(call.path).get(call.method) is publish else None


def _below(call: ApiCall) -> ApiCall:
    """The same, as its handler sees it: with the rest of the path."""
    return ApiCall(call.method, call.path[2:], call.query, call.headers, call.body)


def _table(path: tuple[str, ...]) -> dict[str, Handler]:
    """The methods of a path."""
    match path:
        case (version, "publish", _, *_) if version == _VERSION:
            return {"POST": publish}
        case (version, "request", _, *_) if version == _VERSION:
            return {"POST": request}
        case (version, "kv", _) if version == _VERSION:
            return {"GET": list_keys}
        case (version, "kv", _, _, *_) if version == _VERSION:
            return {"GET": get_key, "PUT": put_key, "DELETE": delete_key}
        case (version, "streams", _, "messages") if version == _VERSION:
            return {"GET": read_messages}
        case (version, "streams", _, "messages", _) if version == _VERSION:
            return {"GET": get_message}
        case _:
            return {}
