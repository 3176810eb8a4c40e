"""`/v1/kv`: key-value buckets, as the clients' convention has them.

A revision is an entity tag: `If-Match: "7"` replaces revision 7 and nothing else, `If-None-Match: *` creates.
"""

from __future__ import annotations

import re
from collections.abc import Generator

import msgspec

from slipstream.protocol.headers import find_header
from slipstream.rest.call import ApiCall
from slipstream.rest.forms import KeyChanges, KeyNames
from slipstream.rest.jetstream_api import API, api_answer, checked_name, decoded, no_stream, stored_ack
from slipstream.rest.message_headers import header_block
from slipstream.rest.steps import Answer, Ask, HttpProblem, NatsReply, Step, Steps
from slipstream.rest.tails import consume

__all__ = ["delete_key", "get_key", "list_keys", "put_key"]

_KEY = re.compile(r"[-/_=.a-zA-Z0-9]+")
_PATTERN = re.compile(r"[-/_=.*a-zA-Z0-9]*>?")
_REVISION = re.compile(r'"?([0-9]{1,19})"?')
_WRONG_LAST_SEQUENCE = (10071, 10164)
_NO_MESSAGE = 404


def list_keys(call: ApiCall) -> Steps:
    """`GET /v1/kv/<bucket>`: the keys, as a JSON array; with `watch=true` every change of any."""
    bucket = _bucket(call)
    if call.flag("watch"):
        return (yield from _watch(call, bucket, ">"))
    wanted: dict[str, object] = {
        "filter_subject": f"$KV.{bucket}.>",
        "deliver_policy": "last_per_subject",
        "headers_only": True,
    }
    return (yield from consume(f"KV_{bucket}", wanted, KeyNames(bucket), follow=False))


def get_key(call: ApiCall) -> Steps:
    """`GET /v1/kv/<bucket>/<key>`: the value; with `watch=true` every change of the key, or of all that match it."""
    bucket = _bucket(call)
    if call.flag("watch"):
        return (yield from _watch(call, bucket, "/".join(call.path[1:])))
    found = yield from _stored(bucket, _key(call), call.number("revision"))
    if found is None or found.is_gone:
        raise HttpProblem(404, "key not found")
    headers = (("ETag", f'"{found.revision}"'), ("Nats-Sequence", str(found.revision)), ("Nats-Time-Stamp", found.time))
    return Answer(200, found.value, headers=headers)


def put_key(call: ApiCall) -> Steps:
    """`PUT /v1/kv/<bucket>/<key>`: store the body as the value."""
    bucket, key = _bucket(call), _key(call)
    lines = call.message_headers
    if call.query.text("ttl"):
        lines = [*lines, ("Nats-TTL", call.query.text("ttl"))]
    creates = call.header("if-none-match") == "*"
    expected = 0 if creates else _if_match(call)
    try:
        ack = yield from _write(call, bucket, key, lines, expected)
    except HttpProblem as problem:
        if not creates or problem.status != 412:
            raise
        # A key that was deleted can be created again: over the marker of its deletion.
        found = yield from _stored(bucket, key, 0)
        if found is None or not found.is_gone:
            raise
        ack = yield from _write(call, bucket, key, lines, found.revision)
    return Answer.json({"revision": ack}, headers=(("ETag", f'"{ack}"'),))


def delete_key(call: ApiCall) -> Steps:
    """`DELETE /v1/kv/<bucket>/<key>`: leave a marker; with `purge=true` without the history before it."""
    bucket, key = _bucket(call), _key(call)
    lines = [*call.message_headers, ("KV-Operation", "PURGE" if call.flag("purge") else "DEL")]
    if call.flag("purge"):
        lines.append(("Nats-Rollup", "sub"))
    yield from _write(call, bucket, key, lines, _if_match(call), b"")
    return Answer(204)


def _watch(call: ApiCall, bucket: str, pattern: str) -> Steps:
    if not pattern or not _PATTERN.fullmatch(pattern):
        raise HttpProblem(400, f"no key or pattern of keys: {pattern!r}")
    wanted: dict[str, object] = {"filter_subject": f"$KV.{bucket}.{pattern}", "deliver_policy": "last_per_subject"}
    if call.flag("updates_only"):
        wanted["deliver_policy"] = "new"
    elif call.flag("history"):
        wanted["deliver_policy"] = "all"
    if call.header("last-event-id").isdigit():
        wanted |= {"deliver_policy": "by_start_sequence", "opt_start_seq": int(call.header("last-event-id")[:19]) + 1}
    return (yield from consume(f"KV_{bucket}", wanted, KeyChanges(bucket)))


class _KeyEntry(msgspec.Struct):
    value: bytes
    header: bytes
    revision: int
    time: str
    subject: str

    @property
    def is_gone(self) -> bool:
        """Whether this is the marker of a deletion."""
        operation = find_header(b"KV-Operation", self.header)
        return operation in (b"DEL", b"PURGE") or find_header(b"Nats-Marker-Reason", self.header) is not None


def _stored(bucket: str, key: str, revision: int) -> Generator[Step, NatsReply | str | None, _KeyEntry | None]:
    """The newest entry of a key, or that of a revision; None if there is none."""
    subject = f"$KV.{bucket}.{key}"
    asked: dict[str, object] = {"seq": revision} if revision else {"last_by_subj": subject}
    try:
        reply = yield Ask(f"{API}.DIRECT.GET.KV_{bucket}", msgspec.json.encode(asked))
    except HttpProblem as problem:
        if problem.status != 503:
            raise
        entry = yield from _stored_by_api(bucket, asked)
    else:
        assert isinstance(reply, NatsReply)
        entry = _direct(reply)
    # A revision is a sequence of the bucket: it may be one of another key.
    return entry if entry is not None and entry.subject == subject else None


def _direct(reply: NatsReply) -> _KeyEntry | None:
    if reply.status == _NO_MESSAGE:
        return None
    if reply.status:
        raise HttpProblem(502, f"the bucket answers with status {reply.status}")
    number = find_header(b"Nats-Sequence", reply.header) or b""
    if not number.isdigit():
        raise HttpProblem(502, "the answer has no sequence: somebody else than JetStream gave it")
    time = find_header(b"Nats-Time-Stamp", reply.header) or b""
    subject = find_header(b"Nats-Subject", reply.header) or b""
    return _KeyEntry(reply.payload, reply.header, int(number), time.decode("latin-1"), subject.decode(errors="replace"))


def _stored_by_api(bucket: str, asked: dict[str, object]) -> Generator[Step, NatsReply | str | None, _KeyEntry | None]:
    """The same, of a bucket without direct gets."""
    try:
        reply = yield Ask(f"{API}.STREAM.MSG.GET.KV_{bucket}", msgspec.json.encode(asked))
        assert isinstance(reply, NatsReply)
        message = api_answer(reply).get("message")
    except HttpProblem as problem:
        if problem.err_code == 10037:  # no message found
            return None
        raise no_stream(problem, "bucket not found") from problem
    if not isinstance(message, dict):
        raise HttpProblem(502, "the answer has no message")
    return _KeyEntry(
        decoded(message.get("data")),
        decoded(message.get("hdrs")),
        int(message.get("seq", 0)),
        str(message.get("time", "")),
        str(message.get("subject", "")),
    )


def _write(
    call: ApiCall,
    bucket: str,
    key: str,
    lines: list[tuple[str, str]],
    expected: int | None,
    value: bytes | None = None,
) -> Generator[Step, NatsReply | str | None, int]:
    """Store an entry; the revision that it got."""
    if expected is not None:
        lines = [*lines, ("Nats-Expected-Last-Subject-Sequence", str(expected))]
    payload = call.body if value is None else value
    try:
        reply = yield Ask(f"$KV.{bucket}.{key}", payload, header_block(lines), call.timeout_ns)
        assert isinstance(reply, NatsReply)
        return int(stored_ack(reply)["seq"])
    except HttpProblem as problem:
        if problem.err_code in _WRONG_LAST_SEQUENCE:
            raise HttpProblem(412, str(problem), problem.err_code) from problem
        raise no_stream(problem, "bucket not found") from problem


def _bucket(call: ApiCall) -> str:
    return checked_name(call.path[0], "bucket")


def _key(call: ApiCall) -> str:
    key = "/".join(call.path[1:])
    if not _KEY.fullmatch(key) or key.startswith(".") or key.endswith("."):
        raise HttpProblem(400, f"no key: {key!r}")
    return key


def _if_match(call: ApiCall) -> int | None:
    text = call.header("if-match")
    if not text:
        return None
    found = _REVISION.fullmatch(text)
    if found is None:
        raise HttpProblem(400, f"`If-Match` has to be a revision: {text!r}")
    return int(found[1])
