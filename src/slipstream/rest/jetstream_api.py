"""Requests to JetStream, and what its answers mean over HTTP."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import msgspec

from slipstream.errors import UNREADABLE
from slipstream.rest.steps import HttpProblem, NatsReply

__all__ = ["API", "api_answer", "checked_name", "decoded", "no_stream", "stored_ack"]

API = "$JS.API"
_NAME = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]+")
_SERVER_SIDE = 500


def checked_name(name: str, what: str) -> str:
    """The name of a stream or a bucket.

    Raises:
        HttpProblem: nothing can have it.
    """
    if not _NAME.fullmatch(name):
        raise HttpProblem(400, f"no name of a {what}: {name!r}")
    return name


def api_answer(reply: NatsReply) -> dict[str, Any]:
    """The JSON of an answer.

    Raises:
        HttpProblem: it is an error, or cannot be read.
    """
    try:
        answer = msgspec.json.decode(reply.payload)
    except UNREADABLE as error:
        raise HttpProblem(502, "the answer is no JSON: somebody else than JetStream gave it") from error
    if not isinstance(answer, dict):
        raise HttpProblem(502, "the answer is no JSON object: somebody else than JetStream gave it")
    refused = answer.get("error")
    if isinstance(refused, dict):
        code, err_code = refused.get("code"), refused.get("err_code")
        status = code if isinstance(code, int) and 400 <= code < 600 else _SERVER_SIDE
        raise HttpProblem(status, str(refused.get("description", "")), err_code if isinstance(err_code, int) else 0)
    return answer


def stored_ack(reply: NatsReply) -> dict[str, Any]:
    """The ack of a stream for a message.

    Raises:
        HttpProblem: it was refused, or no stream answered.
    """
    answer = api_answer(reply)
    if not isinstance(answer.get("stream"), str) or not isinstance(answer.get("seq"), int):
        raise HttpProblem(502, "the answer is no ack of a stream: somebody else gave it")
    return answer


def no_stream(problem: HttpProblem, what: str) -> HttpProblem:
    """Nobody took a message: say which stream is not there."""
    return HttpProblem(404, what) if problem.status == 503 else problem


def decoded(text: object) -> bytes:
    """Bytes that JetStream's JSON has in base64.

    Raises:
        HttpProblem: they are not.
    """
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error as error:
        raise HttpProblem(502, "the answer has broken base64") from error
