"""Payloads that are neither text nor JSON: Avro, which may bring its schema, and Protobuf, with and without one."""

from __future__ import annotations

import json
import struct

from playwright.sync_api import Page, expect

from slipstream.sync import connect
from slipstream.testing import ServerThread
from ui.conftest import Opener, Window

AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": ["null", "string"]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "DONE"]}},
        {"name": "next", "type": ["null", "Order"]},
    ],
}
PROTO = """
syntax = "proto3";  // a comment
package shop;
option java_package = "x";
message Order {
  enum State { UNKNOWN = 0; DONE = 2 [deprecated = true]; BAD = -1; }
  message Line { string sku = 1; double price = 2; }
  reserved 9, 10;
  sint64 id = 1;
  repeated Line lines = 2;
  State state = 3;
  repeated int32 counts = 4 [packed = true];
  map<string, Line> by_name = 5;
  oneof paid { bool cash = 6; bytes card = 7; }
  fixed64 big = 8;
}
service Shop { rpc Get(Order) returns (Order) { option idempotency_level = NO_SIDE_EFFECTS; } }
"""


def _long(value: int) -> bytes:
    """A zigzag number."""
    return _varint((value << 1) ^ (value >> 63))


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _text(value: str) -> bytes:
    return _long(len(value.encode())) + value.encode()


def _order(number: int, *, nested: bytes = b"\0") -> bytes:
    lines = _long(1) + _long(1) + _text("tea") + struct.pack("<d", 2.5) + _long(0) + _long(0)
    return _long(number) + _long(1) + _text("Zoë") + lines + _long(1) + nested


ORDER = {"id": -3, "who": "Zoë", "lines": [{"tea": 2.5}], "state": "DONE"}


def _file(codec: str = "null") -> bytes:
    meta = {"avro.schema": json.dumps(AVRO), "avro.codec": codec}
    head = _long(len(meta)) + b"".join(_text(name) + _text(value) for name, value in meta.items()) + _long(0)
    mark, block = bytes(range(16)), _order(-3) + _order(2**62)
    return b"Obj\x01" + head + mark + _long(2) + _long(len(block)) + block + mark


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


LINE = _field(1, b"tea") + _varint(2 << 3 | 1) + struct.pack("<d", 2.5)
MESSAGE = b"".join(
    (
        _field(1, 5),
        _field(2, LINE),
        _field(2, LINE),
        _field(3, 2),
        _field(4, _varint(1) + _varint(-2)),
        _field(5, _field(1, b"a") + _field(2, LINE)),
        _field(7, b"\xff\x00"),
        _varint(8 << 3 | 1) + struct.pack("<Q", 2**63),
        _field(77, 1),
    )
)
TEA = {"sku": "tea", "price": 2.5}


def _shown(page: Page, seq: int, form: str) -> object:
    page.locator(".messages .scroll .row", has=page.get_by_text(str(seq), exact=True)).click()
    detail = page.get_by_label(f"Message {seq}")
    detail.get_by_role("button", name=form, exact=True).click()
    expect(detail.locator(f"pre.{form.lower()}")).to_contain_text("{")
    return json.loads(detail.locator("pre").inner_text())


def _give_schema(page: Page, label: str, schema: str, message: str = "") -> None:
    page.locator(".detail").get_by_role("button", name="Schema").click()
    form = page.locator("dialog")
    form.get_by_label(label).fill(schema)
    if message:
        form.get_by_label("Message").fill(message)
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)


def _opened(server: ServerThread, dashboard: Opener, *payloads: bytes) -> Window:
    with connect(server.url) as client:
        jetstream = client.jetstream()
        jetstream.create_stream("BIN", subjects=["bin"])
        for payload in payloads:
            jetstream.publish("bin", payload)
    return dashboard(server, "stream/BIN/messages")


def test_avro(server: ServerThread, dashboard: Opener) -> None:
    single = b"\xc3\x01" + bytes(8) + _order(-3, nested=_long(1) + _order(7))
    page = _opened(server, dashboard, _file(), single, _file("snappy")).page
    # Numbers that JavaScript cannot count to are texts.
    file = [{**ORDER, "next": None}, {**ORDER, "id": str(2**62), "next": None}]
    page.locator(".messages .scroll .row", has=page.get_by_text("1", exact=True)).click()
    expect(page.locator("pre.avro")).to_contain_text("Zoë")
    assert json.loads(page.locator(".detail pre").inner_text()) == file
    page.locator(".messages .scroll .row", has=page.get_by_text("2", exact=True)).click()
    page.get_by_role("button", name="Avro").click()
    expect(page.locator(".detail").get_by_role("alert")).to_contain_text("it takes the schema to read it")
    _give_schema(page, "Schema (JSON)", json.dumps(AVRO))
    assert _shown(page, 2, "Avro") == {**ORDER, "next": {**ORDER, "id": 7, "next": None}}
    page.locator(".messages .scroll .row", has=page.get_by_text("3", exact=True)).click()
    expect(page.locator(".detail").get_by_role("alert")).to_contain_text("the file is compressed (snappy)")


def test_protobuf(server: ServerThread, dashboard: Opener) -> None:
    page = _opened(server, dashboard, MESSAGE, b"\xff\xff\xff").page
    guessed = _shown(page, 1, "Protobuf")
    assert isinstance(guessed, dict) and guessed["2"] == [{"1": "tea", "2": 2.5}, {"1": "tea", "2": 2.5}]
    _give_schema(page, "Schema (.proto)", PROTO, "Order")
    assert _shown(page, 1, "Protobuf") == {
        "id": -3,
        "lines": [TEA, TEA],
        "state": "DONE",
        "counts": [1, -2],
        "by_name": {"a": TEA},
        "card": "0xff00",
        "big": str(2**63),
        "77": 1,
    }
    page.locator(".messages .scroll .row", has=page.get_by_text("2", exact=True)).click()
    expect(page.locator(".detail").get_by_role("alert")).to_contain_text("Not read as Protobuf: ")


def test_bytes_of_others_end_in_a_value_or_an_error(server: ServerThread, dashboard: Opener) -> None:
    page = dashboard(server).page
    script = """async ([schema, proto, seeds]) => {
      const avro = await import("./avro.js"), protobuf = await import("./protobuf.js");
      let seed = 7;
      const next = (most) => (seed = (seed * 48271) % 2147483647) % most;
      const faults = new Set();
      for (let round = 0; round < 3000; round++) {
        const data = Uint8Array.from(seeds[round % seeds.length]);
        for (let change = next(4); change >= 0; change--) data[next(data.length)] = next(256);
        const cut = data.subarray(0, data.length - next(3));
        const broken = [...proto];
        broken.splice(next(broken.length), next(30));
        for (const read of [
          () => avro.readAvro(cut, schema), () => protobuf.readProtobuf(cut, ""),
          () => protobuf.readProtobuf(cut, proto), () => protobuf.readProtobuf(cut, broken.join("")),
        ]) {
          try {
            JSON.stringify(read());
          } catch (error) {
            if (["Error", "SyntaxError"].includes(error.name)) continue;
            if (!/encoded data was not valid/.test(error.message)) faults.add(String(error));
          }
        }
      }
      return [...faults];
    }"""
    seeds = [list(_file()), list(_order(-3)), list(MESSAGE)]
    assert page.evaluate(script, [json.dumps(AVRO), PROTO, seeds]) == []
