"""Schemas in the metadata of a stream: what is registered, refused, and done with messages that do not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipstream.schemas import payloads
from slipstream.schemas.errors import SchemaProblem
from support.jetstream_world import World

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
MISMATCH = 30201


def entry(*versions: Any, subjects: tuple[str, ...] = ("s.order",), **more: Any) -> str:
    return json.dumps(
        {"subjects": subjects, "format": "json", "versions": [json.dumps(one) for one in versions], **more}
    )


def metadata(check: str = "reject", letters: str = "", **schemas: str) -> dict[str, str]:
    found = {f"slipstream.schema.{name}": text for name, text in (schemas or {"order": entry(ORDER)}).items()}
    if check:
        found["slipstream.schema-check"] = check
    if letters:
        found["slipstream.schema-letters"] = letters
    return found


def world(**config: Any) -> World:
    made = World()
    made.create(**{"subjects": ["s.>"], "metadata": metadata(), **config})
    return made


def refusal_of(w: World, **config: Any) -> str | None:
    answer = w.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], **config})
    if "error" not in answer:
        return None
    assert answer["error"]["err_code"] == 10052
    return str(answer["error"]["description"])


def test_messages_that_do_not_fit_are_refused() -> None:
    w = world()
    assert w.publish("s.order", b'{"id": 7}') == {"stream": "S", "seq": 1}
    refused = w.publish("s.order", b'{"id": "7"}')["error"]
    assert refused["err_code"] == MISMATCH and refused["code"] == 400
    assert refused["description"] == 'message does not fit the schema order: id: "7" is not of type "integer"'
    assert w.publish("s.other", b"anything") == {"stream": "S", "seq": 2}
    assert w.seqs() == [1, 2]


def test_or_kept_under_another_subject() -> None:
    w = world(metadata=metadata("deadletter", "dead"))
    assert w.publish("s.order", b"{}", A="b", Nats_Expected_Last_Subject_Sequence="0") == {"stream": "S", "seq": 1}
    stored = w.account.streams["S"].store.get(1)
    assert stored is not None and (stored.subject, stored.payload) == (b"dead.s.order", b"{}")
    for line in (b"A: b\r\n", b"Slipstream-Schema: order\r\n", b'Slipstream-Error: the payload: "id" is a required'):
        assert line in stored.headers
    assert w.publish("s.order", b'{"id": 7}', Nats_Expected_Last_Subject_Sequence="0")["seq"] == 2


def test_a_letter_is_no_larger_than_a_message_may_be() -> None:
    w = world(metadata=metadata("deadletter", "dead"), max_msg_size=60)
    assert w.publish("s.order", b"x" * 40)["error"]["err_code"] == 10054


def test_a_message_that_was_there_is_no_mismatch() -> None:
    w = world(metadata=metadata(check=""))
    assert w.publish("s.order", b"{}", Nats_Msg_Id="a")["seq"] == 1  # nothing is checked
    assert refusal_of(w, metadata=metadata()) is None
    assert w.publish("s.order", b"{}", Nats_Msg_Id="a")["duplicate"]
    assert w.publish("s.order", b"{}")["error"]["err_code"] == MISMATCH
    assert refusal_of(w, metadata=metadata(check="")) is None
    assert w.publish("s.order", b"{}")["seq"] == 2


def test_batches_are_whole_or_not_at_all() -> None:
    w = world(allow_atomic=True)
    w.request("s.order", b'{"id": 1}', b"NATS/1.0\r\nNats-Batch-Id: x\r\nNats-Batch-Sequence: 1\r\n\r\n")
    assert (
        w.publish("s.order", b"{}", Nats_Batch_Id="x", Nats_Batch_Sequence="2", Nats_Batch_Commit="1")["error"][
            "err_code"
        ]
        == MISMATCH
    )
    assert w.seqs() == []


def test_removed_keys_have_no_value() -> None:
    w = world(
        name="KV_B",
        subjects=["$KV.B.>"],
        max_msgs_per_subject=1,
        metadata=metadata(value=entry(ORDER, subjects=("$KV.B.>",))),
    )
    assert w.publish("$KV.B.k", b'{"id": 1}')["seq"] == 1
    assert w.publish("$KV.B.k", b"")["error"]["err_code"] == MISMATCH
    assert w.publish("$KV.B.k", b"", KV_Operation="DEL")["seq"] == 2


def test_versions() -> None:
    w = world()
    wider = {**ORDER, "properties": {"id": {"type": "number"}}}
    assert refusal_of(w, metadata=metadata(order=entry(ORDER, wider))) is None
    assert w.publish("s.order", b'{"id": 1.5}')["seq"] == 1
    narrower = {**ORDER, "required": ["id", "note"]}
    said = refusal_of(w, metadata=metadata(order=entry(ORDER, wider, narrower)))
    assert said == "schema order: the new version is not backward compatible: the payload needs the member note"
    assert "versions are added" in str(refusal_of(w, metadata=metadata(order=entry(ORDER))))
    assert refusal_of(w, metadata=metadata(order=entry(ORDER, wider, narrower, evolution="none"))) is None
    assert refusal_of(w, metadata=metadata(check="", other=entry(ORDER))) is None  # one schema goes, another comes


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"metadata": {"slipstream.schema-check": "reject"}}, "needs a schema"),
        ({"metadata": metadata("perhaps")}, "must be reject or deadletter"),
        ({"metadata": metadata("deadletter")}, "goes with"),
        ({"metadata": metadata("reject", "dead")}, "goes with"),
        ({"metadata": metadata("", "dead")}, "goes with"),
        ({"metadata": metadata("deadletter", "dead.*")}, "without wildcards"),
        ({"metadata": metadata(order=entry(ORDER, subjects=("t.>",)))}, "no subject of the stream is in t.>"),
        ({"metadata": metadata(order=entry({"type": "strange"}))}, "schema order: not a JSON Schema"),
        ({"metadata": metadata(order="{")}, "schema order cannot be read"),
        ({"metadata": metadata(), "allow_msg_counter": True}, "not for streams of counters"),
    ],
)
def test_what_is_refused(config: dict[str, Any], reason: str) -> None:
    w = World()
    answer = w.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], **config})
    assert answer["error"]["err_code"] == 10052 and reason in answer["error"]["description"]


def test_mirrors_are_not_checked() -> None:
    w = world()
    answer = w.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}, "metadata": metadata()})
    assert "not for mirrors" in answer["error"]["description"]


def test_a_server_without_the_library_lets_nothing_in(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()

    def missing(_: object) -> Any:
        raise SchemaProblem("jsonschema_rs is not installed")

    monkeypatch.setattr(payloads, "compiled", missing)
    stream = w.account.streams["S"]
    stream.ingest.configure(stream.config)  # as a start does
    assert "jsonschema_rs is not installed" in w.publish("s.order", b'{"id": 1}')["error"]["description"]
    assert w.publish("s.other", b"")["seq"] == 1
