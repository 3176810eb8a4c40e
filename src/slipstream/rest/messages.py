"""`/v1/streams`: messages of a stream, one by its sequence or many as they come."""

from __future__ import annotations

import re

import msgspec

from slipstream.rest.call import ApiCall
from slipstream.rest.forms import EVENTS, LINES, MessageRows
from slipstream.rest.jetstream_api import API, api_answer, checked_name, decoded, no_stream
from slipstream.rest.message_headers import to_http
from slipstream.rest.steps import Answer, Ask, HttpProblem, NatsReply, Steps
from slipstream.rest.tails import consume

__all__ = ["get_message", "read_messages"]

_SEQ = re.compile(r"[1-9][0-9]{0,18}")
_NO_MESSAGE_ERROR = 10037


def get_message(call: ApiCall) -> Steps:
    """`GET /v1/streams/<stream>/messages/<seq>`: one message, its payload as the body."""
    stream, number = checked_name(call.path[0], "stream"), call.path[2]
    if not _SEQ.fullmatch(number):
        raise HttpProblem(400, f"no sequence: {number!r}")
    try:
        reply = yield Ask(f"{API}.STREAM.MSG.GET.{stream}", msgspec.json.encode({"seq": int(number)}))
        assert isinstance(reply, NatsReply)
        message = api_answer(reply).get("message")
    except HttpProblem as problem:
        if problem.err_code == _NO_MESSAGE_ERROR:
            raise HttpProblem(404, str(problem), problem.err_code) from problem
        raise no_stream(problem, "stream not found") from problem
    if not isinstance(message, dict):
        raise HttpProblem(502, "the answer has no message")
    headers = (
        ("Nats-Stream", stream),
        ("Nats-Subject", str(message.get("subject", "")).encode().decode("latin-1")),
        ("Nats-Sequence", number),
        ("Nats-Time-Stamp", str(message.get("time", ""))),
        *to_http(decoded(message.get("hdrs"))),
    )
    return Answer(200, decoded(message.get("data")), headers=headers)


def read_messages(call: ApiCall) -> Steps:
    """`GET /v1/streams/<stream>/messages`: from the first message, or where the query says, and on."""
    stream = checked_name(call.path[0], "stream")
    wanted = _start(call)
    subjects = call.query.text("subject").split(",") if call.query.text("subject") else []
    if len(subjects) == 1:
        wanted["filter_subject"] = subjects[0]
    elif subjects:
        wanted["filter_subjects"] = subjects
    content_type = LINES if LINES in call.header("accept") else EVENTS
    follow = call.flag("follow") if call.query.text("follow") else content_type == EVENTS
    return (yield from consume(stream, wanted, MessageRows(content_type), follow=follow, limit=call.number("limit")))


def _start(call: ApiCall) -> dict[str, object]:
    """Where it begins: behind the last event that the client has, else as the query says."""
    last = call.header("last-event-id")
    if last.isdigit() and len(last) < 19:
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": int(last) + 1}
    given = [name for name in ("from_seq", "from_time", "new") if call.query.text(name)]
    if len(given) > 1:
        raise HttpProblem(400, f"only one of {', '.join(given)}")
    if call.number("from_seq"):
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": call.number("from_seq")}
    if call.query.text("from_time"):
        return {"deliver_policy": "by_start_time", "opt_start_time": call.query.text("from_time")}
    return {"deliver_policy": "new" if call.flag("new") else "all"}
