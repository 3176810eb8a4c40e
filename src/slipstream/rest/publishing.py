"""`/v1/publish` and `/v1/request`."""

from __future__ import annotations

from slipstream.rest.call import ApiCall, subject_of
from slipstream.rest.jetstream_api import no_stream, stored_ack
from slipstream.rest.message_headers import to_http
from slipstream.rest.steps import Answer, Ask, HttpProblem, NatsReply, PublishStep, Steps

__all__ = ["publish", "request"]

_TAKEN = Answer(204)


def publish(call: ApiCall) -> Steps:
    """`POST /v1/publish/<subject>`: 204 when the server took it; with `ack=true` when a stream has it on disk."""
    subject = subject_of(call.path)
    header = call.headers.message_block
    if not call.flag("ack"):
        yield PublishStep(subject, call.body, header)
        return _TAKEN
    try:
        reply = yield Ask(subject, call.body, header, call.timeout_ns)
    except HttpProblem as problem:
        raise no_stream(problem, f"no stream takes {subject!r}") from problem
    assert isinstance(reply, NatsReply)
    return Answer.json(stored_ack(reply))


def request(call: ApiCall) -> Steps:
    """`POST /v1/request/<subject>`: the first reply, its payload as the body."""
    reply = yield Ask(subject_of(call.path), call.body, call.headers.message_block, call.timeout_ns)
    assert isinstance(reply, NatsReply)
    return Answer(200, reply.payload, headers=to_http(reply.header))
