"""The rules about room: of the server, the account, the sequences, and of a stream that discards new messages.

See `rules`, which has all others.
"""
# ruff: noqa: ARG001 - all rules are called alike

from __future__ import annotations

from typing import Final

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.store.values import SEQ_LAST
from slipstream.jetstream.stream.admission.rules import refused, rule
from slipstream.jetstream.stream.admission.verdict import Draft, Origin, Unwanted, Verdict
from slipstream.jetstream.stream.admission.views import View

# Those of a batch or a unit are held to the limits as they are: a full subject does not make place for them.
_NEVER_REPLACE: Final = frozenset({Origin.BATCH, Origin.FAST_BATCH, Origin.BULK, Origin.BULK_COPY})


@rule()
def server_room(draft: Draft, view: View) -> Verdict | None:
    """The server has room."""
    return refused(table.INSUFFICIENT_RESOURCES) if view.server_exceeded else None


@rule()
def account_room(draft: Draft, view: View) -> Verdict | None:
    """The account has room."""
    if view.is_limited and view.would_exceed(view.size_of(draft.subject, draft.header, draft.payload)):
        return refused(table.ACCOUNT_RESOURCES_EXCEEDED)
    return None


@rule(b"Nats-Msg-Id")
def id_room(draft: Draft, view: View) -> Verdict | None:
    """The account has room to remember its id."""
    if draft.message_id and not view.can_remember(draft.message_id):
        return refused(table.ACCOUNT_RESOURCES_EXCEEDED)
    return None


@rule()
def sequences_left(draft: Draft, view: View) -> Verdict | None:
    """There is a sequence for it."""
    if (draft.seq or view.last_seq + 1) > SEQ_LAST:
        return refused(table.STREAM_STORE_FAILED, err="no sequences left")
    return None


@rule(where=lambda settings: settings.interest_only)
def interest(draft: Draft, view: View) -> Verdict | None:
    """Somebody wants it."""
    if view.has_interest(draft.subject):
        return None
    ts_ns = max(draft.ts_ns or draft.now_ns, view.last_ts_ns)
    seq = draft.seq or view.last_seq + 1
    return Unwanted(seq, ts_ns, draft.subject, draft.header, draft.message_id, draft.rollup)


@rule(where=lambda settings: settings.discards_new and settings.config.discard_new_per_subject)
def subject_full(draft: Draft, view: View) -> Verdict | None:
    """Discard-new per subject: its subject has room, or it empties it."""
    limit = view.settings.config.max_msgs_per_subject
    if 0 < limit <= view.subject_state(draft.subject).count and not draft.rollup:
        return refused(table.STREAM_STORE_FAILED, err="maximum messages per subject exceeded")
    return None


@rule(where=lambda settings: settings.discards_new and settings.config.max_msgs > 0)
def messages_full(draft: Draft, view: View) -> Verdict | None:
    """Discard-new: the stream has room for one more, or this one takes another's place."""
    if view.settings.config.max_msgs <= view.messages and not _replaced_seq(draft, view):
        return refused(table.STREAM_STORE_FAILED, err="maximum messages exceeded")
    return None


@rule(where=lambda settings: settings.discards_new and settings.config.max_bytes > 0)
def bytes_full(draft: Draft, view: View) -> Verdict | None:
    """Discard-new: the stream has room for so many bytes, or the one whose place this takes leaves as many."""
    size_bytes = view.size_of(draft.subject, draft.header, draft.payload)
    if view.settings.config.max_bytes >= view.size_bytes + size_bytes:
        return None
    replaced_seq = _replaced_seq(draft, view)
    if replaced_seq and view.size_at(replaced_seq) >= size_bytes:
        return None
    return refused(table.STREAM_STORE_FAILED, err="maximum bytes exceeded")


def _replaced_seq(draft: Draft, view: View) -> int:
    """The oldest message of a full subject, which goes when this one comes; 0: none goes."""
    limit = view.settings.config.max_msgs_per_subject
    if limit <= 0 or draft.origin in _NEVER_REPLACE:
        return 0
    state = view.subject_state(draft.subject)
    return state.first_seq if state.count >= limit else 0
