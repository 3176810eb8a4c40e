"""The rules a message is held to on its way into a stream: one function a rule.

A rule looks at a draft and at the state it would join. It gives a verdict that ends the matter, or None; some rewrite
the draft. No rule reads a clock, rolls dice or changes the state. Which of them apply to a message, and in which order,
is `rule_table`'s.
"""
# ruff: noqa: ARG001 - all rules are called alike

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from slipstream.dataclass import dataclass
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.errors_table import ErrorSpec
from slipstream.jetstream.gojson.scan import go_quote
from slipstream.jetstream.stream.admission.settings import StreamSettings
from slipstream.jetstream.stream.admission.ttl import deadline, parse_ttl
from slipstream.jetstream.stream.admission.verdict import Admitted, Draft, Duplicate, Origin, Refused, Verdict
from slipstream.jetstream.stream.admission.views import View
from slipstream.jetstream.stream.features import counters, schedule_rules
from slipstream.limits import STREAM_HEADER_BYTES_MAX

__all__ = ["PART_INVALID", "SCHEMA_MISMATCH", "Check", "Rule", "admitted", "refused", "rule", "sequence_of"]

SCHEMA_MISMATCH: Final = ErrorSpec(400, 30201, "message does not fit the schema {name}: {reason}")
PART_INVALID: Final = ErrorSpec(400, 30010, "staged part invalid: {err}")

Check = Callable[[Draft, View], Verdict | None]
_DIGITS = re.compile(rb"[0-9]{1,20}")
_NOT_A_SEQUENCE: Final = -1  # never equals a real one
# With these, a life time that cannot be read counts as one where none is allowed; else it is complained about last.
_ANY_TTL_ASKS: Final = frozenset({Origin.BATCH, Origin.FAST_BATCH})


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule and when it can say anything at all."""

    check: Check
    headers: tuple[bytes, ...] = ()
    """Only about messages that have one of these; empty: about any."""
    where: Callable[[StreamSettings], bool] | None = None
    """Only in streams of such settings; None: in any."""

    @property
    def name(self) -> str:
        """What the rule is called."""
        return self.check.__name__


def rule(*names: bytes, where: Callable[[StreamSettings], bool] | None = None) -> Callable[[Check], Rule]:
    """Make a function a rule about messages with one of these headers (none: all), in streams of such settings."""
    return lambda check: Rule(check, names, where)


def admitted(draft: Draft, view: View) -> Admitted:
    """The verdict when no rule has anything against a draft."""
    settings = view.settings
    ts_ns = max(draft.ts_ns or draft.now_ns, view.last_ts_ns)
    return Admitted(
        draft.seq or view.last_seq + 1,
        ts_ns,
        draft.subject,
        draft.header,
        draft.payload,
        # A copy may ask for a life time that its new stream does not know of.
        deadline(ts_ns, draft.ttl) if draft.ttl and settings.allows_ttl else 0,
        draft.message_id,
        draft.rollup,
        view.last_seq_of(draft.subject) if settings.republishes else 0,
        draft.tail,
    )


def sequence_of(value: bytes) -> int:
    """The number in a header; one that no sequence equals if it is none."""
    return int(value) if _DIGITS.fullmatch(value) else _NOT_A_SEQUENCE


def refused(spec: ErrorSpec, **values: object) -> Refused:
    """The verdict that a message must not be stored."""
    return Refused(TableError(spec, **values))


# --- what it is -------------------------------------------------------------------------------------------------------


@rule()
def status_removed(draft: Draft, view: View) -> Verdict | None:
    """A status is the server's to give."""
    if draft.header.startswith(b"NATS/1.0 "):
        draft.header = headers.without_status(draft.header)
    return None


@rule(b"Nats-Request-Info")
def request_info_removed(draft: Draft, view: View) -> Verdict | None:
    """Who asks is for services only."""
    draft.header = headers.remove(draft.header, b"Nats-Request-Info")
    return None


@rule(where=lambda settings: settings.config.sealed)
def sealed(draft: Draft, view: View) -> Verdict | None:
    """A sealed stream takes nothing."""
    return refused(table.STREAM_SEALED)


@rule()
def too_large(draft: Draft, view: View) -> Verdict | None:
    """A message has at most the size that the stream allows."""
    if len(draft.header) + len(draft.payload) > view.settings.max_msg_size:
        return refused(table.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
    return None


@rule()
def header_too_large(draft: Draft, view: View) -> Verdict | None:
    """A header block fits into what a record can hold."""
    if len(draft.header) > STREAM_HEADER_BYTES_MAX:
        return refused(table.STREAM_HEADER_EXCEEDS_MAXIMUM)
    return None


@rule(b"Nats-Stream-Source")
def source_forged(draft: Draft, view: View) -> Verdict | None:
    """Where a message was copied from is the server's to say."""
    return refused(table.MESSAGE_SOURCE_HDR_NOT_ALLOWED) if draft.fields[b"Nats-Stream-Source"] else None


# --- conditions of the publisher --------------------------------------------------------------------------------------


@rule(b"Nats-Expected-Stream")
def expected_stream(draft: Draft, view: View) -> Verdict | None:
    """The stream is the one its publisher expects."""
    expected = draft.fields[b"Nats-Expected-Stream"]
    return refused(table.STREAM_NOT_MATCH) if expected and expected != view.settings.name else None


@rule(b"Nats-Expected-Last-Sequence")
def expected_last_seq(draft: Draft, view: View) -> Verdict | None:
    """The last message of the stream is the one its publisher expects."""
    expected = draft.fields[b"Nats-Expected-Last-Sequence"]
    if not expected:
        return None
    if sequence_of(expected) != view.last_seq:
        return refused(table.STREAM_WRONG_LAST_SEQUENCE, seq=view.last_seq)
    return refused(table.STREAM_WRONG_LAST_SEQUENCE_CONSTANT) if view.has_written() else None


@rule(b"Nats-Expected-Last-Subject-Sequence", b"Nats-Expected-Last-Subject-Sequence-Subject")
def expected_last_subject_seq(draft: Draft, view: View) -> Verdict | None:
    """The last message of its subject, or of another one, is the one its publisher expects."""
    expected = draft.fields.get(b"Nats-Expected-Last-Subject-Sequence")
    other = draft.fields.get(b"Nats-Expected-Last-Subject-Sequence-Subject")
    if not expected:
        return refused(table.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID) if other else None
    subject = other or draft.subject
    if view.has_written(subject):
        return refused(table.STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
    actual = view.last_seq_of(subject)
    return None if sequence_of(expected) == actual else refused(table.STREAM_WRONG_LAST_SEQUENCE, seq=actual)


@rule(b"Nats-Expected-Last-Msg-Id")
def expected_last_id(draft: Draft, view: View) -> Verdict | None:
    """The last message has the id its publisher expects."""
    expected, actual = draft.fields[b"Nats-Expected-Last-Msg-Id"], view.last_id
    if not expected or expected == actual:
        return None
    return refused(table.STREAM_WRONG_LAST_MSG_ID, id=actual.decode("utf-8", "replace"))


@rule(b"Nats-Expected-Last-Msg-Id")
def last_id_expected_in_batch(draft: Draft, view: View) -> Verdict | None:
    """A message of an atomic batch cannot ask for the id of the one before it."""
    name = "Nats-Expected-Last-Msg-Id"
    if not draft.fields[name.encode()]:
        return None
    return refused(table.ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH, header=name)


@rule(b"Nats-Msg-Id")
def message_id(draft: Draft, view: View) -> Verdict | None:
    """Its id is remembered."""
    draft.message_id = draft.fields[b"Nats-Msg-Id"]
    return None


@rule(b"Nats-Msg-Id")
def duplicate(draft: Draft, view: View) -> Verdict | None:
    """The same id within the window is the same message."""
    original = view.original(draft.message_id, draft.now_ns) if draft.message_id else None
    return None if original is None else Duplicate(original)


@rule(where=lambda settings: settings.schemas is not None)
def fits_schema(draft: Draft, view: View) -> Verdict | None:
    """The payload is what was registered for its subject; else it is refused, or kept where dead letters are."""
    settings = view.settings
    assert settings.schemas is not None
    if not draft.payload and b"\r\nKV-Operation: " in draft.header:
        return None  # a key is removed: there is no value
    problem = settings.schemas.problem(draft.subject, draft.payload)
    if problem is None:
        return None
    name, reason = problem
    if not settings.letters:
        return refused(SCHEMA_MISMATCH, name=name, reason=reason)
    said = reason.encode("ascii", "backslashreplace").replace(b"\r", b" ").replace(b"\n", b" ")
    draft.header = headers.append(draft.header, b"Slipstream-Schema", name.encode())
    draft.header = headers.append(draft.header, b"Slipstream-Error", said)
    draft.subject = settings.letters + b"." + draft.subject
    return too_large.check(draft, view) or header_too_large.check(draft, view)


# --- what it asks for -------------------------------------------------------------------------------------------------


@rule(b"Nats-Rollup")
def rollup(draft: Draft, view: View) -> Verdict | None:
    """What it removes."""
    draft.rollup = draft.fields[b"Nats-Rollup"].lower()
    return None


@rule(b"Nats-Rollup", where=lambda settings: not settings.can_roll_up)
def rollup_ignored(draft: Draft, view: View) -> Verdict | None:
    """A copy keeps a roll-up that is not allowed here as mere words."""
    draft.rollup = b""
    return None


@rule(b"Nats-Rollup", b"Nats-Schedule")
def wrong_rollup(draft: Draft, view: View) -> Verdict | None:
    """A roll-up is allowed, known, and not about the batch it is part of."""
    asked = draft.rollup
    if not asked:
        return None
    if not view.settings.can_roll_up:
        complaint = "rollup not permitted"
    elif asked == b"sub" and view.has_written(draft.subject):
        complaint = "batch rollup sub invalid"
    elif asked == b"all" and view.has_written():
        complaint = "batch rollup all invalid"
    elif asked not in (b"sub", b"all"):
        complaint = f"rollup value invalid: {go_quote(asked.decode('utf-8', 'replace'))}"
    else:
        return None
    return refused(table.STREAM_ROLLUP_FAILED, err=complaint)


@rule(b"Nats-TTL", where=lambda settings: not settings.allows_ttl)
def ttl_disabled(draft: Draft, view: View) -> Verdict | None:
    """A message may say how long it lives where that is allowed."""
    asked = draft.fields[b"Nats-TTL"]
    ttl = parse_ttl(asked) if asked else 0
    if ttl or (ttl is None and draft.origin in _ANY_TTL_ASKS):
        return refused(table.MESSAGE_TTL_DISABLED)
    return None


@rule(b"Nats-TTL")
def ttl(draft: Draft, view: View) -> Verdict | None:
    """How long it lives is a time."""
    asked = draft.fields[b"Nats-TTL"]
    seconds = parse_ttl(asked) if asked else 0
    if seconds is None:
        return refused(table.MESSAGE_TTL_INVALID)
    draft.ttl = seconds
    return None


@rule(b"Nats-TTL", where=lambda settings: settings.marker_ttl > 0)
def outlives_marker(draft: Draft, view: View) -> Verdict | None:
    """A message lives as long as a marker on its subject, else the marker could be missed."""
    least = view.settings.marker_ttl
    if 0 < draft.ttl < least:
        draft.header = headers.append(headers.remove(draft.header, b"Nats-TTL"), b"Nats-TTL", b"%d" % least)
        draft.ttl = least
    return None


@rule(b"Nats-Incr")
def wrong_increment(draft: Draft, view: View) -> Verdict | None:
    """What counts is a number, in a stream of counters, with no body and no conditions."""
    error = counters.refusal(draft.header, draft.payload, allowed=view.settings.config.allow_msg_counter)
    return None if error is None else Refused(error)


@rule(where=lambda settings: settings.config.allow_msg_counter)
def counted(draft: Draft, view: View) -> Verdict | None:
    """In a stream of counters every message counts, and is stored with the total."""
    found = counters.counted(draft.subject, draft.header, draft.payload, view.newest)
    if not isinstance(found, counters.CountedMessage):
        return Refused(found)
    draft.header, draft.payload = found
    draft.tail = b"," + found.payload[1:-1]
    if len(found.header) + len(found.payload) > view.settings.max_payload_bytes:
        return refused(table.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
    return too_large.check(draft, view) or header_too_large.check(draft, view)


@rule(b"Nats-Schedule", b"Nats-Schedule-Time-Zone", b"Nats-Schedule-Next", b"Nats-Scheduler")
def wrong_schedule(draft: Draft, view: View) -> Verdict | None:
    """What is to be published later, or no more, makes sense."""
    config = view.settings.config
    error = schedule_rules.refusal(config, draft.subject, draft.header, draft.now_ns, view.newest)
    return None if error is None else Refused(error)


@rule(b"Nats-Schedule")
def schedule_rolls_up(draft: Draft, view: View) -> Verdict | None:
    """A schedule replaces the one before it on its subject."""
    draft.header = schedule_rules.with_rollup(draft.header, draft.now_ns)
    draft.rollup = (headers.find(draft.header, b"Nats-Rollup") or b"").lower()
    return None


@rule(
    b"Nats-Rollup",
    b"Nats-Incr",
    b"Nats-Batch-Id",
    b"Nats-Schedule",
    b"Nats-Scheduler",
    b"Nats-Stream-Source",
    b"Nats-Expected-Last-Msg-Id",
    b"Nats-Expected-Last-Subject-Sequence-Subject",
)
def not_in_bulk(draft: Draft, view: View) -> Verdict | None:
    """A bulk commit stores: it has no headers that mean something else, or conditions that look beyond a subject."""
    return _not_in_bulk(draft, not_in_bulk)


@rule(b"Nats-Incr", b"Nats-Schedule", b"Nats-Scheduler")
def not_copied_in_bulk(draft: Draft, view: View) -> Verdict | None:
    """Of these a stream keeps more than the message: a copy of it is not a copy of what it stands for."""
    return _not_in_bulk(draft, not_copied_in_bulk)


def _not_in_bulk(draft: Draft, held_to: Rule) -> Verdict | None:
    for name in held_to.headers:
        if draft.fields.get(name):
            return refused(PART_INVALID, err=f"{name.decode()} cannot be committed")
    return None


@rule(b"Nats-Stream-Source", where=lambda settings: bool(settings.config.sources))
def sourced_before(draft: Draft, view: View) -> Verdict | None:
    """A stream with sources finds out by this header how far it has come with them."""
    known = draft.fields[b"Nats-Stream-Source"]
    return refused(PART_INVALID, err="it has come from a source before") if known else None


@rule(where=lambda settings: settings.config.allow_msg_counter)
def counters_in_bulk(draft: Draft, view: View) -> Verdict | None:
    """In a stream of counters every message counts, and those of a bulk commit cannot."""
    return refused(table.MESSAGE_INCR_MISSING)
