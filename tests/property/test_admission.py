"""One admission: the same message by every road, and the fast paths against the rules."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slipstream.jetstream import headers
from slipstream.jetstream.stream.admission import room_rules, rules
from slipstream.jetstream.stream.admission.rule_table import ORDERS, StreamRules, fields_of, is_looked_at
from slipstream.jetstream.stream.admission.rules import Rule, admitted
from slipstream.jetstream.stream.admission.verdict import Admitted, Draft, Duplicate, Origin, Refused, Unwanted, Verdict
from slipstream.jetstream.stream.admission.views import AssignedView, StagedView, View
from slipstream.jetstream.stream.stream import Stream
from support.bulk_world import BulkWorld
from support.jetstream_world import World

LOOKED_AT = sorted({name for order in ORDERS.values() for rule in order for name in rule.headers})
TARGETS = ["s.a", "s.b", "s.*"]
VALUES = {
    b"Nats-Msg-Id": ["a", "b", ""],
    b"Nats-Expected-Stream": ["S", "T"],
    b"Nats-Expected-Last-Sequence": ["0", "3", "03", "9", "x"],
    b"Nats-Expected-Last-Subject-Sequence": ["0", "2", "3", "x"],
    b"Nats-Expected-Last-Subject-Sequence-Subject": TARGETS,
    b"Nats-Expected-Last-Msg-Id": ["a", "b"],
    b"Nats-Rollup": ["sub", "ALL", "other"],
    b"Nats-TTL": ["1s", "never", "soon", "0"],
    b"Nats-Incr": ["1", "x"],
    b"Nats-Schedule": ["@every 1h", "@at 2030-01-01T00:00:00Z", "now"],
    b"Nats-Schedule-Time-Zone": ["UTC", "Nowhere"],
    b"Nats-Schedule-Next": ["purge", "later"],
    b"Nats-Scheduler": TARGETS,
    b"Nats-Stream-Source": ["T 1 > > s.a"],
    b"Nats-Request-Info": ["{}"],
    b"Nats-Batch-Id": [""],
}
OWN = st.sampled_from([*VALUES]).flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(VALUES[name])))
HEADERS = st.lists(OWN | st.just((b"Nats-Schedule-Target", "s.b")) | st.just((b"A", "b")), max_size=4).map(
    lambda lines: b"".join(b"%b: %b\r\n" % (name, value.encode()) for name, value in lines)
)
BLOCKS = st.tuples(st.sampled_from([b"NATS/1.0\r\n", b"NATS/1.0 503\r\n"]), HEADERS).map(
    lambda parts: b"".join(parts) + b"\r\n"
)
MESSAGES = st.tuples(
    st.sampled_from([b"s.a", b"s.b", b"s.c"]),
    st.just(b"") | BLOCKS,
    st.sampled_from([b"", b"body", b'{"val":"3"}', b"x" * 200]),
)

CHECKED = {
    "slipstream.schema.x": '{"subjects": ["s.a", "s.b"], "format": "json", "versions": ["true"]}',
    "slipstream.schema-check": "reject",
}
LETTERS = {"slipstream.schema-check": "deadletter", "slipstream.schema-letters": "dead"}


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Streams of all kinds that are allowed."""
    if draw(st.integers(0, 5)) == 0:
        return {"allow_msg_counter": True, "max_msg_size": draw(st.sampled_from([-1, 50]))}
    config: dict[str, Any] = {
        "max_msg_size": draw(st.sampled_from([-1, -1, 150])),
        "allow_msg_ttl": draw(st.booleans()),
        "allow_rollup_hdrs": draw(st.booleans()),
        "allow_msg_schedules": draw(st.booleans()),
        "retention": draw(st.sampled_from(["limits", "limits", "interest"])),
    }
    if not config["allow_msg_schedules"] and draw(st.booleans()):
        limits = {"max_msgs": st.sampled_from([3, 4]), "max_bytes": st.just(200), "max_msgs_per_subject": st.just(2)}
        config |= {"discard": "new", **draw(st.fixed_dictionaries({}, optional=limits))}
        config["discard_new_per_subject"] = "max_msgs_per_subject" in config and draw(st.booleans())
    if config["allow_msg_schedules"] or config["allow_msg_ttl"]:
        config["allow_rollup_hdrs"] = True
    if config["allow_msg_ttl"] and draw(st.booleans()):
        config["subject_delete_marker_ttl"] = 5 * 10**9
    if draw(st.integers(0, 3)) == 0:
        config["subject_transform"] = {"src": "s.c", "dest": "s.b"}
    if draw(st.integers(0, 3)) == 0:
        config["metadata"] = draw(st.sampled_from([CHECKED, {**CHECKED, **LETTERS}]))
    if draw(st.integers(0, 3)) == 0:
        config["republish"] = {"src": "s.>", "dest": "r.>"}
    return config


def stream_of(config: dict[str, Any], world: World | None = None) -> Stream:
    """A stream of that configuration with some messages in it: `s.a` twice, `s.b` once, with an id."""
    world = world or World()
    world.create(subjects=["s.>"], allow_atomic=True, allow_batched=True, **config)
    value = {"Nats_Incr": "1"} if config.get("allow_msg_counter") else {}
    for subject, extra in (("s.a", {}), ("s.a", {}), ("s.b", {"Nats_Msg_Id": "a"})):
        world.publish(subject, b"" if value else b"x", **value, **extra)
    return world.account.streams["S"]


def judged(stream: Stream, origin: Origin, message: tuple[bytes, bytes, bytes], view: View | None = None) -> Verdict:
    subject, header, payload = message
    draft = Draft(origin, stream.appends.stored_under(subject), header, payload, stream.appends.last_ts_ns + 1)
    return stream.appends.rules.judge(draft, view or stream.appends.view)


def by_hand(stream: Stream, origin: Origin, message: tuple[bytes, bytes, bytes]) -> tuple[Rule | None, Verdict]:
    """The same by the order alone: which rule had the last word, and what it was."""
    subject, header, payload = message
    view, appends = stream.appends.view, stream.appends
    draft = Draft(origin, appends.stored_under(subject), header, payload, appends.last_ts_ns + 1)
    draft.fields = {name: value for name in LOOKED_AT if (value := headers.find(header, name)) is not None}
    for rule in ORDERS[origin]:
        if rule.where is not None and not rule.where(view.settings):
            continue
        if not rule.headers or any(name in draft.fields for name in rule.headers):
            verdict = rule.check(draft, view)
            if verdict is not None:
                return rule, verdict
    return None, admitted(draft, view)


def shown(verdict: Verdict) -> object:
    """A verdict as something that can be compared."""
    if isinstance(verdict, Refused):
        return verdict.error.err_code, verdict.error.description
    return verdict


# What origins differ in although the rule is in the order of both: those that never take another's place, and what
# rewrites a draft or says what an earlier rule has left over.
DEPENDS_ON_ORIGIN = {room_rules.messages_full, room_rules.bytes_full, rules.ttl_disabled, rules.ttl}
DEPENDS_ON_OTHERS = {
    rules.too_large,
    rules.header_too_large,
    room_rules.bytes_full,
    room_rules.account_room,
    rules.wrong_rollup,
}
REWRITES = {
    rules.fits_schema,
    rules.status_removed,
    rules.request_info_removed,
    rules.rollup_ignored,
    rules.schedule_rolls_up,
    rules.counted,
    rules.message_id,
    rules.rollup,
    rules.ttl,
    rules.outlives_marker,
}


@settings(max_examples=150)
@given(configs(), MESSAGES)
def test_the_same_message_by_every_origin(config: dict[str, Any], message: tuple[bytes, bytes, bytes]) -> None:
    stream = stream_of(config)
    before = (stream.store.last_seq, len(stream.appends.ids), stream.appends.last_ts_ns)
    found = {origin: by_hand(stream, origin, message) for origin in Origin}
    for origin, (_, verdict) in found.items():
        assert shown(judged(stream, origin, message)) == shown(verdict), origin
    assert (stream.store.last_seq, len(stream.appends.ids), stream.appends.last_ts_ns) == before, "nothing has changed"
    for one, other in permutations(Origin, 2):
        rule, verdict = found[one]
        theirs = found[other][1]
        if rule is not None and rule in ORDERS[other] and rule not in DEPENDS_ON_ORIGIN | DEPENDS_ON_OTHERS:
            # What has the last word with one has something to say with the other, if no other rule was faster.
            assert not isinstance(theirs, Admitted), (one, other, rule.name)
            if found[other][0] is rule:
                assert type(theirs) is type(verdict)
                assert not isinstance(verdict, (Refused, Duplicate)) or shown(theirs) == shown(verdict)
        if isinstance(verdict, Admitted) and isinstance(theirs, Admitted):
            differing = set(ORDERS[one]) ^ set(ORDERS[other])
            if not differing & REWRITES:
                assert theirs == verdict, (one, other)


@settings(max_examples=60)
@given(configs(), MESSAGES)
def test_every_origin_does_what_the_rules_say(config: dict[str, Any], message: tuple[bytes, bytes, bytes]) -> None:
    subject, header, payload = message
    header = header.replace(b"NATS/1.0 503", b"NATS/1.0").replace(b"Nats-Batch-Id: \r\n", b"")
    message = subject, header, payload
    for origin in (Origin.PUBLISH, Origin.BATCH, Origin.FAST_BATCH, Origin.SOURCE, Origin.MARKER):
        world = World()
        stream = stream_of(config, world)
        sent, reply = message, b"_INBOX.x"
        if origin is Origin.BATCH:
            lines = b"Nats-Batch-Id: B\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n\r\n"
            sent = subject, (header or b"NATS/1.0\r\n\r\n")[:-2] + lines, payload
        verdict = judged(stream, origin, sent)
        if origin is Origin.FAST_BATCH:
            reply = b"_INBOX.x.B.10.ok.1.2.$FI"
        last_seq = stream.store.last_seq
        if origin is Origin.SOURCE:
            refusal = stream.copy_in.store(*message)
            assert refusal is None or (isinstance(verdict, Refused) and str(refusal) == str(verdict.error))
        elif origin is Origin.MARKER:
            if isinstance(verdict, (Admitted, Unwanted)):
                assert stream.appends.apply(verdict) is None
        else:
            stream.ingest.on_publish(sent[0], reply, sent[1] or None, payload)
            if isinstance(stream.appends.refused_on_arrival(*sent), Exception) and origin is not Origin.PUBLISH:
                continue
        world.ports.settle()
        stream.check_invariants()
        grown = isinstance(verdict, (Admitted, Unwanted))
        assert stream.store.last_seq == last_seq + grown, (origin, verdict)
        if isinstance(verdict, Admitted) and not verdict.rollup and not verdict.expires_ns:
            stored = stream.store.get(verdict.seq)
            assert (stored.subject, stored.headers, stored.payload) == (
                verdict.subject,
                verdict.header,
                verdict.payload,
            )
            assert verdict.message_id == b"" or stream.appends.ids.find(verdict.message_id, 0) in (verdict.seq, None)


@settings(max_examples=25)
@given(configs(), MESSAGES)
@example({}, (b"s.a", b"NATS/1.0 503\r\n\r\n", b"a status is not for the kernel"))
def test_a_bulk_commit_does_what_the_rules_say(config: dict[str, Any], message: tuple[bytes, bytes, bytes]) -> None:
    if config.get("allow_msg_counter"):
        return
    world = BulkWorld()
    stream = stream_of(config, world)
    verdict = judged(stream, Origin.BULK, message)
    last_seq = stream.store.last_seq
    answer = world.commit(0, [world.stage([(message[0].decode(), message[1], message[2])])])
    if isinstance(verdict, Refused):
        assert answer["error"]["err_code"] == verdict.error.err_code
        assert answer["error"]["description"].startswith(verdict.error.description)
    else:
        assert answer["count"] == isinstance(verdict, Admitted), answer
    assert stream.store.last_seq == last_seq + isinstance(verdict, Admitted)
    stored = stream.store.get(last_seq + 1) if isinstance(verdict, Admitted) else None
    if stored is not None:
        assert (stored.subject, stored.headers, stored.payload) == (verdict.subject, verdict.header, verdict.payload)


@settings(max_examples=60)
@given(configs(), st.lists(MESSAGES, min_size=1, max_size=5), st.booleans())
@example({"discard": "new", "max_msgs": 4}, [(b"s.a", b"", b""), (b"s.a", b"", b"")], True)
@example({"discard": "new", "max_bytes": 200}, [(b"s.a", b"", b"body"), (b"s.a", b"", b"x" * 80)], True)
@example({"discard": "new", "max_msgs": 4, "max_msgs_per_subject": 2}, [(b"s.a", b"", b"")] * 4, True)
def test_fast_paths_are_for_what_no_rule_speaks_about(
    config: dict[str, Any], messages: list[tuple[bytes, bytes, bytes]], together: bool
) -> None:
    """A stream that judges every message ends where one does that has fast paths, and says the same."""
    worlds = World(), World()
    fast, slow = (stream_of(config, world) for world in worlds)
    assert fast.appends.rules.is_plain == slow.appends.rules.is_plain
    for number, (subject, header, payload) in enumerate(messages):
        reply = b"_INBOX.%d" % number
        if fast.appends.rules.is_plain and not is_looked_at(header):
            for origin in (Origin.PUBLISH, Origin.SOURCE, Origin.MIRROR, Origin.BULK, Origin.BULK_COPY):
                verdict = judged(slow, origin, (subject, header, payload))
                size = len(header) + len(payload)
                if size > slow.appends.rules.settings.max_msg_size:
                    assert isinstance(verdict, Refused)
                else:
                    last_seq, ts_ns = slow.appends.last_seq, slow.appends.last_ts_ns
                    parts = last_seq + 1, ts_ns + 1, subject, header, payload, 0, b"", b"", 0, b""
                    assert verdict == Admitted(*parts)
        worlds[0].ports.route(subject, reply, header or None, payload)
        slow.ingest._publish(subject, reply, header, payload)
        for world in () if together else worlds:
            world.ports.settle()
    for world in worlds:
        world.ports.settle()
    assert worlds[0].ports.sent == worlds[1].ports.sent
    assert [*map(fast.store.get, worlds[0].seqs())] == [*map(slow.store.get, worlds[1].seqs())]


@given(st.lists(st.sampled_from([b"\r\n", b"\r", b"\n", b":", b" ", b"x", b"NATS/1.0", *LOOKED_AT]), max_size=30))
def test_headers_are_found_in_one_pass(parts: list[bytes]) -> None:
    block = b"".join(parts)
    found = fields_of(block)
    assert found == {name: value for name in LOOKED_AT if (value := headers.find(block, name)) is not None}


@settings(max_examples=60)
@given(configs(), st.lists(MESSAGES, min_size=2, max_size=4))
def test_a_staged_batch_is_what_it_becomes(config: dict[str, Any], messages: list[tuple[bytes, bytes, bytes]]) -> None:
    """A view of staged messages shows what the stream shows when they are stored."""
    stream = stream_of(config)
    staged = StagedView(stream_of(config).appends.view)
    for message in messages:
        verdict = judged(stream, Origin.BATCH, message, staged)
        if not isinstance(verdict, (Admitted, Unwanted)) or verdict.rollup:
            return
        if stream.config.max_msgs_per_subject > 0:
            return  # storing removes others
        staged.add(verdict)
        assert stream.appends.apply(verdict) is None
        view: AssignedView = stream.appends.view
        assert (staged.last_seq, staged.last_ts_ns, staged.last_id) == (view.last_seq, view.last_ts_ns, view.last_id)
        assert staged.messages == view.messages
        for subject in (b"s.a", b"s.b", b"s.c"):
            assert staged.subject_state(subject) == view.subject_state(subject)
            assert staged.last_seq_of(subject) == view.last_seq_of(subject)
            assert staged.newest(subject) == view.newest(subject)


def test_every_rule_is_in_some_order() -> None:
    known = {each for each in (vars(rules) | vars(room_rules)).values() if isinstance(each, Rule)}
    assert known == {rule for order in ORDERS.values() for rule in order}
    assert all(len(set(order)) == len(order) for order in ORDERS.values())
    assert sorted(ORDERS) == [*range(len(Origin))] == sorted(Origin), "origins are places in a list"


@pytest.mark.parametrize("origin", Origin)
def test_selections_do_not_grow(origin: Origin) -> None:
    stream = stream_of({})
    names = [name for name in LOOKED_AT if name != b"Nats-Request-Info"]
    for order in list(permutations(names, 3))[:600]:
        block = b"NATS/1.0\r\n" + b"".join(b"%b: \r\n" % name for name in order) + b"\r\n"
        judged(stream, origin, (b"s.a", block, b""))
    compiled: StreamRules = stream.appends.rules
    assert 0 < len(compiled._selections[origin]) <= 256
