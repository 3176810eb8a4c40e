"""Which rules a message is held to, and in which order.

The order is visible to clients, because the first broken rule is the one they hear of. nats-server looks at a message
of a batch in another order than at one alone; so the order is data, for each origin its own, over the same rules.

A stream's `StreamRules` are built from its configuration and replaced as a whole. They leave out the rules that cannot
say anything in this stream; of the others a message meets those that its headers call for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.stream.admission import room_rules, rules
from slipstream.jetstream.stream.admission.rules import Check, Rule, admitted
from slipstream.jetstream.stream.admission.settings import StreamSettings
from slipstream.jetstream.stream.admission.verdict import Draft, Origin, Verdict
from slipstream.jetstream.stream.admission.views import View
from slipstream.limits import STREAM_HEADER_BYTES_MAX

__all__ = ["CHECKED_BY_FAST_PATHS", "ORDERS", "StreamRules", "fields_of", "is_looked_at"]

_CONDITIONS: Final = (
    rules.status_removed,
    rules.sealed,
    rules.too_large,
    rules.header_too_large,
    rules.request_info_removed,
    rules.wrong_increment,
    rules.expected_stream,
    rules.ttl_disabled,
    rules.expected_last_subject_seq,
    rules.expected_last_seq,
    rules.wrong_schedule,
    rules.source_forged,
    rules.rollup,
    rules.schedule_rolls_up,
    rules.message_id,
    rules.duplicate,
    rules.expected_last_id,
    rules.wrong_rollup,
    rules.counted,
    rules.fits_schema,
)
_ROOM: Final = (
    room_rules.server_room,
    room_rules.id_room,
    room_rules.sequences_left,
    room_rules.interest,
    room_rules.account_room,
    rules.ttl,
    room_rules.subject_full,
    room_rules.messages_full,
    room_rules.bytes_full,
    rules.outlives_marker,
)
_IN_BATCH: Final = (
    rules.status_removed,
    rules.request_info_removed,
    rules.header_too_large,
    rules.wrong_increment,
    rules.expected_stream,
    rules.ttl_disabled,
    rules.ttl,
    rules.message_id,
    rules.duplicate,
    rules.source_forged,
    rules.counted,
    rules.expected_last_seq,
    rules.expected_last_subject_seq,
    rules.wrong_schedule,
    rules.rollup,
    rules.schedule_rolls_up,
    rules.wrong_rollup,
    rules.fits_schema,
    room_rules.messages_full,
    room_rules.bytes_full,
    room_rules.subject_full,
)
# Conditions of the publisher held at the origin.
_COPIED: Final = (
    rules.sealed,
    rules.too_large,
    rules.header_too_large,
    rules.request_info_removed,
    rules.message_id,
    rules.duplicate,
    rules.rollup,
    rules.rollup_ignored,
    rules.wrong_rollup,
    rules.counted,
    *_ROOM,
)
# Account and server had room when the commit began: what was staged was counted then.
_BULK_ROOM: Final = (
    room_rules.interest,
    room_rules.id_room,
    room_rules.sequences_left,
    rules.ttl,
    room_rules.subject_full,
    room_rules.messages_full,
    room_rules.bytes_full,
    rules.outlives_marker,
)

ORDERS: Final[Mapping[Origin, tuple[Rule, ...]]] = {
    Origin.PUBLISH: (*_CONDITIONS, *_ROOM),
    Origin.TRACE: _CONDITIONS,
    Origin.ARRIVAL: (
        rules.status_removed,
        rules.sealed,
        room_rules.server_room,
        room_rules.account_room,
        rules.too_large,
    ),
    Origin.BATCH: (
        rules.last_id_expected_in_batch,
        *_IN_BATCH,
        room_rules.server_room,
        room_rules.account_room,
        room_rules.id_room,
        room_rules.sequences_left,
        room_rules.interest,
        rules.outlives_marker,
    ),
    # The id of the last message comes late: it concerns this message alone and does not end the batch.
    Origin.FAST_BATCH: (
        *_IN_BATCH,
        rules.expected_last_id,
        room_rules.server_room,
        room_rules.id_room,
        room_rules.sequences_left,
        room_rules.interest,
        room_rules.account_room,
        rules.outlives_marker,
    ),
    Origin.SOURCE: _COPIED,
    # A mirror's messages are where they are at the origin, each once.
    Origin.MIRROR: tuple(rule for rule in _COPIED if rule is not rules.duplicate),
    Origin.SCHEDULE: _COPIED,
    # What it replaces makes place for it, and it has no id.
    Origin.MARKER: (rules.rollup, *_ROOM),
    Origin.UNIT: (rules.sealed, rules.counters_in_bulk, room_rules.server_room, room_rules.account_room),
    Origin.BULK: (
        rules.status_removed,
        rules.request_info_removed,
        rules.too_large,
        rules.header_too_large,
        rules.not_in_bulk,
        rules.ttl_disabled,
        rules.expected_stream,
        rules.expected_last_subject_seq,
        rules.expected_last_seq,
        rules.wrong_schedule,
        rules.message_id,
        rules.duplicate,
        rules.fits_schema,
        *_BULK_ROOM,
    ),
    Origin.BULK_COPY: (
        rules.status_removed,
        rules.request_info_removed,
        rules.too_large,
        rules.header_too_large,
        rules.not_copied_in_bulk,
        rules.ttl_disabled,
        rules.sourced_before,
        rules.message_id,
        *_BULK_ROOM,
    ),
}

# Rules that the fast paths check themselves, or that have nothing to say about a message whose header is not looked at.
CHECKED_BY_FAST_PATHS: Final = frozenset(
    {
        rules.status_removed,
        rules.too_large,
        rules.header_too_large,
        room_rules.server_room,
        room_rules.sequences_left,
        room_rules.account_room,
    }
)
# Rules that the intake keeps by leaving alone what they could say something about.
CHECKED_BY_INTAKE: Final = frozenset({room_rules.messages_full, room_rules.bytes_full})
_LOOKED_AT: Final = sorted({name for order in ORDERS.values() for rule in order for name in rule.headers})
_FIELD: Final = re.compile(
    rb"\r\n(%b): *+([^\r]*+(?:\r(?!\n)[^\r]*+)*+)(?=\r\n)" % b"|".join(map(re.escape, _LOOKED_AT)),
)
# Combinations of headers whose rules are kept, an origin: publishers use a few, in the order of their library.
_SELECTIONS_MAX: Final = 256


def is_looked_at(header: bytes) -> bool:
    """Whether a rule could say something about a message because of its header block."""
    return header.find(b"\r\nNats-") >= 0 or len(header) > STREAM_HEADER_BYTES_MAX or header.startswith(b"NATS/1.0 ")


def fields_of(header: bytes) -> dict[bytes, bytes]:
    """The headers that rules look at, as `headers.find` finds them: of two with the same name the first."""
    if header.find(b"\r\nNats-") < 0:
        return {}
    return dict(reversed(_FIELD.findall(header)))


_WHERES: Final = tuple(
    dict.fromkeys(rule.where for order in ORDERS.values() for rule in order if rule.where is not None)
)
"""What rules ask of a stream's settings."""
_PLAIN_ORIGINS: Final = (Origin.PUBLISH, Origin.SOURCE, Origin.MIRROR, Origin.BULK, Origin.BULK_COPY)


@lru_cache(maxsize=256)  # there are many streams, and few kinds of them
def _orders_where(answers: tuple[bool, ...]) -> tuple[tuple[tuple[Rule, ...], ...], frozenset[Rule]]:
    """The rules of each origin in streams whose settings answer `_WHERES` like this, and those of them that look at a
    message without headers and are not checked by fast paths."""
    holds = {where for where, answer in zip(_WHERES, answers, strict=True) if answer}
    orders = tuple(
        tuple(rule for rule in ORDERS[origin] if rule.where is None or rule.where in holds) for origin in Origin
    )
    asked = {rule for origin in _PLAIN_ORIGINS for rule in orders[origin] if not rule.headers}
    return orders, frozenset(asked - CHECKED_BY_FAST_PATHS)


class StreamRules:
    """The rules of one stream. Immutable."""

    __slots__ = ("_orders", "_selections", "is_plain", "is_plain_with_room", "settings")

    def __init__(self, config: StreamConfig, max_payload_bytes: int) -> None:
        """Those of a configuration that was checked, on a server with this `max_payload`."""
        self.settings = settings = StreamSettings.of(config, max_payload_bytes)
        self._orders, asked = _orders_where(tuple(bool(where(settings)) for where in _WHERES))
        self._selections: list[dict[tuple[bytes, ...], tuple[Check, ...]]] = [{} for _ in Origin]
        has_consequences = bool(settings.transform or settings.republishes or config.allow_msg_schedules)
        # Whether a message whose header is not looked at needs no look but at its size and at the room, and has no
        # consequences.
        self.is_plain = not has_consequences and not asked
        # Whether that is so as long as the stream is not nearly full: the intake looks at that itself.
        self.is_plain_with_room = not has_consequences and asked <= CHECKED_BY_INTAKE

    def judge(self, draft: Draft, view: View) -> Verdict:
        """What becomes of a draft that would join the state in `view`."""
        return self.objection(draft, view) or admitted(draft, view)

    def objection(self, draft: Draft, view: View) -> Verdict | None:
        """The first thing that a rule has against a draft, which is rewritten on the way."""
        fields = draft.fields = fields_of(draft.header)
        for check in self._selections[draft.origin].get(tuple(fields)) or self._select(draft.origin, fields):
            verdict = check(draft, view)
            if verdict is not None:
                return verdict
        return None

    def _select(self, origin: Origin, fields: Mapping[bytes, bytes]) -> tuple[Check, ...]:
        """The rules for a message with these headers."""
        selections = self._selections[origin]
        if len(selections) >= _SELECTIONS_MAX:
            selections.clear()
        selected = selections[tuple(fields)] = tuple(
            rule.check
            for rule in self._orders[origin]
            if not rule.headers or any(name in fields for name in rule.headers)
        )
        return selected
