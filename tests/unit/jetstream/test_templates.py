"""Templates: streams that come with the first message, and go when they are empty and idle."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.templated import rule_of
from support.consumer_world import SECOND_NS, ConsumerWorld

MINUTE_NS = 60 * SECOND_NS


def named(rule: str = "ORDERS_{2}", **more: str) -> dict[str, str]:
    return {"slipstream.template": rule, **{f"slipstream.template.{key}": value for key, value in more.items()}}


def world(subject: str = "orders.*", metadata: dict[str, str] | None = None, **config: Any) -> ConsumerWorld:
    made = ConsumerWorld()
    made.stream("T", [subject], metadata=metadata or named(), **config)
    return made


def test_the_first_publish_is_stored_and_acknowledged() -> None:
    w = world()
    assert w.publish("orders.acme", b"1") == {"stream": "ORDERS_acme", "seq": 1}
    assert w.publish("orders.acme", b"2") == {"stream": "ORDERS_acme", "seq": 2}
    assert w.publish("orders.other", b"1") == {"stream": "ORDERS_other", "seq": 1}
    assert w.seqs("ORDERS_acme") == [1, 2] and w.seqs("T") == []
    config = w.api("STREAM.INFO.ORDERS_acme")["config"]
    assert config["subjects"] == ["orders.acme"]
    assert config["metadata"]["slipstream.template.of"] == "T" and "slipstream.template" not in config["metadata"]
    w.check()


def test_messages_of_one_turn_keep_their_order() -> None:
    w = world()
    for number in range(5):
        w.ports.route(b"orders.acme", b"_INBOX.t.%d" % number, None, b"%d" % number)
    w.ports.settle()
    got = [w.api("STREAM.MSG.GET.ORDERS_acme", {"seq": seq})["message"]["data"] for seq in range(1, 6)]
    assert got == ["MA==", "MQ==", "Mg==", "Mw==", "NA=="]
    acks = [sent[3] for sent in w.ports.sent if sent[0].startswith(b"_INBOX.t.")]
    assert acks == [b'{"stream":"ORDERS_acme","seq":%d}' % seq for seq in range(1, 6)]


def test_headers_count_for_the_first_one_as_well() -> None:
    w = world()
    assert w.publish("orders.acme", Nats_Msg_Id="1")["seq"] == 1
    assert w.publish("orders.acme", Nats_Msg_Id="1")["duplicate"]
    assert w.publish("orders.new", Nats_Expected_Last_Sequence="7")["error"]["err_code"] == 10071


def test_the_name_has_some_tokens_and_the_stream_all_the_others() -> None:
    w = world("shop.*.*.>", named("{2}-{3}-log"), max_msgs=2)
    assert w.publish("shop.eu.berlin.sold.shoes")["stream"] == "eu-berlin-log"
    info = w.api("STREAM.INFO.eu-berlin-log")
    assert info["config"]["subjects"] == ["shop.eu.berlin.>"] and info["config"]["max_msgs"] == 2
    assert w.publish("shop.eu.berlin.x")["seq"] == 2


def test_a_stream_made_by_hand_has_its_subject() -> None:
    w = world()
    w.stream("VIP", ["orders.vip"])
    assert w.publish("orders.vip") == {"stream": "VIP", "seq": 1}


def test_the_limit() -> None:
    w = world(metadata=named(max="2"))
    assert w.publish("orders.a")["seq"] == w.publish("orders.b")["seq"] == 1
    refusal = w.publish("orders.c")["error"]
    assert refusal["err_code"] == 30105 and refusal["description"] == "template T has made 2 streams, which is the most"
    w.api("STREAM.DELETE.ORDERS_a")
    assert w.publish("orders.c")["seq"] == 1


def test_a_name_that_is_taken_or_none() -> None:
    w = world("orders.*.*", named("{2}_{3}"))
    assert w.publish("orders.a_b.c")["stream"] == "a_b_c"
    assert w.publish("orders.a.b_c")["error"]["err_code"] == 30106
    assert w.publish("orders.a/b.c")["error"]["err_code"] == 10052
    w.check()


def test_a_subject_that_no_stream_can_have() -> None:
    w = world()
    w.ports.route(b"orders.\xff", b"_INBOX.odd", None, b"")
    w.ports.settle()
    (answer,) = [sent[3] for sent in w.ports.sent if sent[0] == b"_INBOX.odd"]
    assert b"not UTF-8" in answer and list(w.account.streams) == ["T"]


def test_a_bug_is_told_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()
    w.ports.tolerant = True
    monkeypatch.setattr(w.account.holdings, "collecting", None)
    assert w.publish("orders.a")["error"]["err_code"] == 10051
    assert w.ports.reported
    monkeypatch.undo()
    assert w.publish("orders.a")["seq"] == 1


def test_what_the_disk_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()

    def broken(*_: object) -> Any:
        raise StorageFault("no space left on device")

    monkeypatch.setattr(w.stores, "create", broken)
    assert w.publish("orders.acme")["error"]["code"] >= 400
    monkeypatch.undo()
    assert w.publish("orders.acme")["seq"] == 1


def test_idle_and_empty_streams_go() -> None:
    w = world(metadata=named(idle="1m"))
    w.publish("orders.gone")
    w.publish("orders.full")
    w.publish("orders.read")
    for name in ("ORDERS_gone", "ORDERS_read"):
        w.api(f"STREAM.PURGE.{name}")
    w.add(stream="ORDERS_read")
    w.ports.advance(MINUTE_NS // 2)
    assert "ORDERS_gone" in w.account.streams
    w.ports.advance(2 * MINUTE_NS)
    assert sorted(w.account.streams) == ["ORDERS_full", "ORDERS_read", "T"]
    assert w.publish("orders.gone") == {"stream": "ORDERS_gone", "seq": 1}
    w.check()


def test_a_message_that_comes_while_an_idle_stream_goes_is_kept() -> None:
    w = world(metadata=named(idle="1m"))
    w.publish("orders.acme")
    w.api("STREAM.PURGE.ORDERS_acme")
    stream = w.account.streams["ORDERS_acme"]
    w.account.delete_stream("ORDERS_acme", lambda _: None, only_if=lambda one: not one.store.assigned.messages)
    w.ports.route(b"orders.acme", b"_INBOX.late", None, b"late")
    w.ports.settle()
    (answer,) = [sent for sent in w.ports.sent if sent[0] == b"_INBOX.late"]
    kept = w.account.streams["ORDERS_acme"]
    assert kept.store.messages == 1 and (kept is stream or answer[3].endswith(b'"seq":1}'))


def test_a_template_is_watched_after_a_restart_and_an_update() -> None:
    w = world(metadata=named(max="2"))
    w.publish("orders.a")
    w = w.restart()
    assert w.publish("orders.b")["seq"] == 1
    assert w.publish("orders.c")["error"]["err_code"] == 30105
    config = w.api("STREAM.INFO.T")["config"]
    config["metadata"] = named(max="3")
    assert "error" not in w.api("STREAM.UPDATE.T", config)
    assert w.publish("orders.c")["seq"] == 1
    assert w.api("STREAM.INFO.T")["template"] == {"streams": 3, "limit": 3}
    w.api("STREAM.DELETE.T")
    assert w.publish("orders.d") is None and w.publish("orders.a")["seq"] == 2


@pytest.mark.parametrize(
    ("metadata", "config", "problem"),
    [
        (named("ORDERS"), {}, "must have places such as {2}"),
        (named("O_{1}"), {}, "each for a * of the subject"),
        (named("O_{3}"), {}, "each for a * of the subject"),
        (named("O_{2}{x}"), {}, "braces around something"),
        (named(max="0"), {}, "slipstream.template.max must be a number between 1 and 10000"),
        (named(idle="soon"), {}, "slipstream.template.idle must be a duration"),
        (named(idle="1ms"), {}, "slipstream.template.idle must be a duration"),
        (named(colour="red"), {}, "unknown metadata slipstream.template.colour"),
        (named(of="X"), {}, "slipstream.template.of is for streams that a template made"),
        ({"slipstream.template.max": "3"}, {}, "slipstream.template.max needs slipstream.template"),
        (named(), {"subjects": ["orders.*", "other.*"]}, "slipstream.template needs one subject"),
        (named(), {"subjects": [], "sources": [{"name": "X"}]}, "slipstream.template is not for mirrors or sources"),
    ],
)
def test_what_cannot_be_is_refused(metadata: dict[str, str], config: dict[str, Any], problem: str) -> None:
    w = ConsumerWorld()
    body = {"name": "T", "subjects": ["orders.*"], "metadata": metadata, **config}
    answer = w.api("STREAM.CREATE.T", body)
    assert problem in answer["error"]["description"] and answer["error"]["err_code"] == 10052


def test_templates_do_not_overlap_nor_become_streams_nor_have_consumers() -> None:
    w = world()
    answer = w.api("STREAM.CREATE.U", {"name": "U", "subjects": ["orders.*"], "metadata": named("U_{2}")})
    assert answer["error"]["err_code"] == 10065
    answer = w.api("STREAM.UPDATE.T", {"name": "T", "subjects": ["orders.*"], "storage": "memory"})
    assert "can not begin or end slipstream.template" in answer["error"]["description"]
    body = {"name": "C", "durable_name": "C", "ack_policy": "explicit"}
    answer = w.api("CONSUMER.CREATE.T.C", {"stream_name": "T", "config": body})
    assert "a template stores no messages" in answer["error"]["description"]


def test_rules() -> None:
    rule = rule_of(StreamConfig(name="T", subjects=["a.*.b.*.>"], metadata=named("X{4}{2}", idle="1m")))
    assert rule.name_for("a.1.b.2.c.d") == "X21" and rule.subject_for("a.1.b.2.c.d") == "a.1.b.2.>"
    assert rule.idle_ns == MINUTE_NS and rule.limit == 1_000
