"""Request bodies: which are empty, which are looked at, and their structs."""

from __future__ import annotations

import re
from typing import Protocol, TypeVar, cast

import msgspec

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.structs import PLACEMENT, Placement
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson.bind import Field, GoList, GoPointer, GoStruct
from slipstream.jetstream.gojson.scalars import BOOL, INT, STRING, TIME, UINT64
from slipstream.jetstream.gojson.scan import JsonError, skip_blank, value_end

__all__ = [
    "LEADER_STEPDOWN",
    "MSG_DELETE",
    "MSG_GET",
    "STREAM_INFO",
    "STREAM_LIST",
    "STREAM_NAMES",
    "STREAM_PEER",
    "STREAM_PURGE",
    "LeaderStepdownRequest",
    "MsgDeleteRequest",
    "MsgGetRequest",
    "StreamInfoRequest",
    "StreamListRequest",
    "StreamPeerRequest",
    "StreamPurgeRequest",
    "decode",
    "decode_optional",
    "decode_text",
    "is_empty",
    "prepare",
    "prepare_optional",
    "quick_get",
]

StructT = TypeVar("StructT", bound=msgspec.Struct)


class StreamListRequest(msgspec.Struct, kw_only=True):
    """STREAM.NAMES and STREAM.LIST."""

    offset: int = 0
    subject: str = ""


class StreamPeerRequest(msgspec.Struct, kw_only=True):
    """STREAM.PEER.REMOVE and STREAM.PEER.EVACUATE."""

    peer: str = ""
    """A server's name, or the short form of its number."""


class LeaderStepdownRequest(msgspec.Struct, kw_only=True):
    """STREAM.LEADER.STEPDOWN, CONSUMER.LEADER.STEPDOWN and META.LEADER.STEPDOWN."""

    placement: Placement | None = None


class StreamInfoRequest(msgspec.Struct, kw_only=True):
    """STREAM.INFO."""

    offset: int = 0
    deleted_details: bool = False
    subjects_filter: str = ""


class StreamPurgeRequest(msgspec.Struct, kw_only=True):
    """STREAM.PURGE: `seq` is the first to survive, `keep` how many of the newest do."""

    seq: int = 0
    filter: str = ""
    keep: int = 0


class MsgDeleteRequest(msgspec.Struct, kw_only=True):
    """STREAM.MSG.DELETE."""

    seq: int = 0
    no_erase: bool = False


class MsgGetRequest(msgspec.Struct, kw_only=True):
    """STREAM.MSG.GET and DIRECT.GET."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: int = 0
    max_bytes: int = 0
    start_time_ns: int | None = None
    multi_last: list[str] = []
    up_to_seq: int = 0
    up_to_time_ns: int | None = None
    no_hdr: bool = False


# One member, in any layout; a text without escapes, or a number that is in range whatever its digits.
_QUICK_GET = re.compile(
    rb"""[ \t\r\n]*\{[ \t\r\n]*(?:"seq"[ \t\r\n]*:[ \t\r\n]*([1-9][0-9]{0,17})"""
    rb"""|"last_by_subj"[ \t\r\n]*:[ \t\r\n]*"([ !#-\[\]-~]+)")[ \t\r\n]*\}[ \t\r\n]*"""
)
_PAGED = [Field("offset", INT), Field("subject", STRING)]
STREAM_NAMES = GoStruct("JSApiStreamNamesRequest", StreamListRequest, _PAGED)
STREAM_PEER = GoStruct("JSApiStreamRemovePeerRequest", StreamPeerRequest, [Field("peer", STRING)])
LEADER_STEPDOWN = GoStruct(
    "JSApiLeaderStepdownRequest", LeaderStepdownRequest, [Field("placement", GoPointer(PLACEMENT))]
)
STREAM_LIST = GoStruct("JSApiStreamListRequest", StreamListRequest, _PAGED)
STREAM_INFO = GoStruct(
    "JSApiStreamInfoRequest",
    StreamInfoRequest,
    [Field("offset", INT), Field("deleted_details", BOOL), Field("subjects_filter", STRING)],
)
STREAM_PURGE = GoStruct(
    "JSApiStreamPurgeRequest",
    StreamPurgeRequest,
    [Field("seq", UINT64), Field("filter", STRING), Field("keep", UINT64)],
)
MSG_DELETE = GoStruct("JSApiMsgDeleteRequest", MsgDeleteRequest, [Field("seq", UINT64), Field("no_erase", BOOL)])
MSG_GET = GoStruct(
    "JSApiMsgGetRequest",
    MsgGetRequest,
    [
        Field("seq", UINT64),
        Field("last_by_subj", STRING),
        Field("next_by_subj", STRING),
        Field("batch", INT),
        Field("max_bytes", INT),
        Field("start_time", GoPointer(TIME), attribute="start_time_ns"),
        Field("multi_last", GoList(STRING)),
        Field("up_to_seq", UINT64),
        Field("up_to_time", GoPointer(TIME), attribute="up_to_time_ns"),
        Field("no_hdr", BOOL),
    ],
)


class Asked(Protocol):
    """What is needed of a call to read its body."""

    body: bytes
    decoded: object
    """What `prepare` made of the body, until somebody takes it; None if nobody prepared it."""

    @property
    def strict(self) -> bool:
        """Whether unknown names are refused."""
        ...

    def complain(self, problem: Exception) -> None:
        """Log what is wrong with the body."""
        ...


def decode(struct: GoStruct[StructT], request: Asked) -> StructT:
    """Read a body: strictly, or else with a line in the log about what is unknown in it.

    Raises:
        TableError: 10025 with Go's words.
    """
    return _decoded(struct, request, request.body)


def prepare(struct: GoStruct[StructT], request: Asked) -> StructT | None:
    """Read a long body before its turn, perhaps in a thread; `decode` gives what was found, or raises it.

    Returns the same; None if there was no body to be had, or `decode` has to look for itself.
    """
    return _prepared(struct, request, request.body)


def prepare_optional(struct: GoStruct[StructT], request: Asked) -> StructT | None:
    """The same for `decode_optional`."""
    return _prepared(struct, request, _optional(request.body))


def _prepared(struct: GoStruct[StructT], request: Asked, body: bytes) -> StructT | None:
    try:
        request.decoded = decoded = struct.decode(body)
    except JsonError as error:
        if request.strict:
            request.decoded = TableError(table.INVALID_JSON, err=error)
        return None
    return decoded


def decode_optional(struct: GoStruct[StructT], request: Asked) -> StructT:
    """Read a body that counts only if it looks like an object or array; anything else is ignored.

    Raises:
        TableError: 10025 with Go's words.
    """
    return _decoded(struct, request, _optional(request.body))


def decode_text(struct: GoStruct[StructT], body: bytes) -> StructT:
    """The same for a body that is no call of an account; always strict.

    Raises:
        TableError: 10025 with Go's words.
    """
    try:
        return struct.decode(_optional(body))
    except JsonError as error:
        raise TableError(table.INVALID_JSON, err=error) from None


def _optional(body: bytes) -> bytes:
    at = skip_blank(body, 0)
    return body if body[at : at + 1] in (b"{", b"[") else b""


def _decoded(struct: GoStruct[StructT], request: Asked, body: bytes) -> StructT:
    prepared, request.decoded = request.decoded, None
    if isinstance(prepared, TableError):
        raise prepared
    if prepared is not None:
        return cast(StructT, prepared)
    try:
        try:
            return struct.decode(body)
        except JsonError as problem:
            if request.strict:
                raise
            request.complain(problem)
            return struct.decode(body, strict=False)
    except JsonError as error:
        raise TableError(table.INVALID_JSON, err=error) from None


def quick_get(body: bytes) -> MsgGetRequest | None:
    """Read the two bodies that nearly every MSG.GET has, without a general scan; None for all others."""
    found = _QUICK_GET.fullmatch(body)
    if found is None:
        return None
    seq, subject = found.groups()
    return MsgGetRequest(seq=int(seq)) if seq else MsgGetRequest(last_by_subj=subject.decode())


def is_empty(body: bytes) -> bool:
    """No bytes, or one JSON object without members."""
    if not body or body == b"{}":
        return True
    at = skip_blank(body, 0)
    try:
        end = value_end(body, at)
    except JsonError:
        return False
    return (
        body[at : at + 1] == b"{" and body[skip_blank(body, at + 1)] == ord("}") and skip_blank(body, end) == len(body)
    )
