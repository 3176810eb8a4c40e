"""`/v1/publish` and `/v1/request`."""

from __future__ import annotations

from slipstream.rest.call import ApiCall, subject_of
from slipstream.rest.jetstream_api import no_stream, stored_ack
from slipstream.rest.message_headers import to_http
from slipstream.rest.steps import Answer, Ask, HttpProblem, NatsReply, PublishStep, Steps

__all__ = ["lone_publish", "publish", "request"]

_TAKEN = Answer(204)


def publish(call: ApiCall) -> Steps:
    """`POST /v1/publish/<subject>`: 204 when the server took it; with `ack=true` when a stream has it on disk."""
    step = lone_publish(call)
    if step is not None:
        yield step
        return _TAKEN
    subject = subject_of(call.path)
    try:
        reply = yield Ask(subject, call.body, call.headers.message_block, call.timeout_ns)
    except HttpProblem as problem:
        raise no_stream(problem, f"no stream takes {subject!r}") from problem
    assert isinstance(reply, NatsReply)
    return Answer.json(stored_ack(reply))


def lone_publish(call: ApiCall) -> PublishStep | None:
    """All that a publish without an ack does; None: it waits for one.

    Raises:
        HttpProblem: the request is not in order.
    """
    return None if call.flag("ack") else PublishStep(subject_of(call.path), call.body, call.headers.message_block)


def request(call: ApiCall) -> Steps:
    """`POST /v1/request/<subject>`: the first reply, its payload as the body."""
    reply = yield Ask(subject_of(call.path), call.body, call.headers.message_block, call.timeout_ns)
    assert isinstance(reply, NatsReply)
    return Answer(200, reply.payload, headers=to_http(reply.header))
