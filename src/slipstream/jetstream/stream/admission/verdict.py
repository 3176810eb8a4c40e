"""What goes into the rules of a stream, and what comes out: a draft with its origin, and one of four verdicts.

A draft is what somebody wants stored, with the time as a value. The rules work on it and fill in what they find out.
The verdict holds everything that storing needs, so that whoever applies it, here or elsewhere, gets the same state.
"""

from __future__ import annotations

import enum

import msgspec

from slipstream.errors import ApiError

__all__ = ["Admitted", "Draft", "Duplicate", "Origin", "Refused", "Unwanted", "Verdict"]


class Origin(enum.IntEnum):
    """Where a draft comes from. The rules that apply, and their order, depend on it (`rule_table`)."""

    PUBLISH = 0
    """A client, or the server in a client's place: a dead letter, for example."""
    TRACE = 1
    """The same, only to find out what would become of it."""
    ARRIVAL = 2
    """A message of a batch when it arrives: what can be said about it alone."""
    BATCH = 3
    """A message of an atomic batch that is complete."""
    FAST_BATCH = 4
    """A message of a fast batch."""
    SOURCE = 5
    """A stream that this one has as a source."""
    MIRROR = 6
    """The stream that this one mirrors."""
    SCHEDULE = 7
    """A schedule in the stream itself."""
    MARKER = 8
    """The server: a subject was emptied by age."""
    UNIT = 9
    """A bulk commit before its first message."""
    BULK = 10
    """A message of a bulk commit."""
    BULK_COPY = 11
    """The same if another stream has taken it before and done what its headers ask for."""


class Draft(msgspec.Struct, gc=False):
    """A message on its way through the rules, which may rewrite it."""

    origin: Origin
    subject: bytes
    """What it is to be stored under: the stream's transform, which may roll dice, comes before the rules."""
    header: bytes
    """A whole block, or `b""`."""
    payload: bytes
    now_ns: int
    seq: int = 0
    """The sequence it has to have, 0 for the next."""
    ts_ns: int = 0
    """The time that it brings along, 0 for none."""
    fields: dict[bytes, bytes] = {}
    """Headers that rules look at, as they came."""
    message_id: bytes = b""
    rollup: bytes = b""
    """What it asks to remove: `b"sub"`, `b"all"` or `b""`."""
    ttl: int = 0
    """Seconds it asks to live, 0 or `NEVER`."""
    tail: bytes = b""
    """What its ack says behind the sequence."""


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """Store this."""

    seq: int
    ts_ns: int
    subject: bytes
    header: bytes
    payload: bytes
    expires_ns: int
    """Its own deadline, 0 for none."""
    message_id: bytes
    rollup: bytes
    previous_seq: int
    """The message before it on its subject, if it may be republished."""
    tail: bytes


class Unwanted(msgspec.Struct, frozen=True, gc=False):
    """Nobody is interested: it takes a sequence and has its consequences, but is not stored."""

    seq: int
    ts_ns: int
    subject: bytes
    header: bytes
    message_id: bytes
    rollup: bytes


class Duplicate(msgspec.Struct, frozen=True, gc=False):
    """Its message id was seen within the window: it is there already."""

    seq: int
    """Where; 0 if that is an earlier message of the same batch."""


class Refused(msgspec.Struct, frozen=True):
    """It must not be stored."""

    error: ApiError


Verdict = Admitted | Unwanted | Duplicate | Refused
