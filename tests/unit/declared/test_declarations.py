"""Declarations as files: what is read, and what is refused with which line."""

from __future__ import annotations

import pytest

from slipstream.declared.nodes import DeclarationError
from slipstream.declared.yaml_file import read_declarations

WHOLE = """
streams:
  ORDERS:
    subjects: [orders.>, 1.2, no]   # YAML would guess a number and a boolean
    max_age: 7d
    max_bytes: 1GiB
    max_msgs: 1_000
    storage: memory
    allow_direct: yes
    duplicate_window: 120000000000
    placement: {tags: [ssd]}
    republish: {src: ">", dest: copies.>}
    metadata: {owner: 12}
    consumers:
      billing: {ack_wait: 30s, backoff: [1s, 1m30s], filter_subject: orders.us}
      audit:
  COPY:
    mirror: {name: ORDERS, opt_start_time: 2026-01-01T00:00:00Z}
kv:
  config: {history: 5, ttl: 1h, max_value_size: 64KB}
objects:
  files: {max_bucket_size: 10G}
"""


def test_everything_is_read_as_its_field_wants_it() -> None:
    declared = read_declarations(WHOLE, "f.yaml")
    orders = declared.streams["ORDERS"]
    assert orders.fields == {
        "subjects": ["orders.>", "1.2", "no"],
        "max_age": 7 * 86400 * 10**9,
        "max_bytes": 2**30,
        "max_msgs": 1000,
        "storage": "memory",
        "allow_direct": True,
        "duplicate_window": 120 * 10**9,
        "placement": {"tags": ["ssd"]},
        "republish": {"src": ">", "dest": "copies.>"},
        "metadata": {"owner": "12"},
    }
    assert orders.consumers is not None
    assert orders.consumers["billing"].fields["backoff"] == [10**9, 90 * 10**9]
    assert orders.consumers["audit"].fields == {} and orders.consumers["audit"].place.line == 16
    assert declared.streams["COPY"].consumers is None
    assert declared.streams["COPY"].fields["mirror"]["opt_start_time"].startswith("2026-01-01T00:00:00")
    assert declared.kv["config"].fields == {"history": 5, "ttl": 3600 * 10**9, "max_value_size": 65536}
    assert declared.objects["files"].fields == {"max_bucket_size": 10 * 2**30}


def test_json_is_read_too() -> None:
    text = '{\n\t"streams": {\n\t\t"A": {"subjects": ["a"], "max_age": 1000}\n\t}\n}'
    assert read_declarations(text, "f.json").streams["A"].fields == {"subjects": ["a"], "max_age": 1000}


def test_shared_parts() -> None:
    text = "streams:\n  A: &base {max_age: 1h, max_msgs: 5}\n  B:\n    <<: *base\n    max_msgs: 6\n"
    assert read_declarations(text, "f").streams["B"].fields == {"max_msgs": 6, "max_age": 3600 * 10**9}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("streams:\n  A:\n    subjets: [a]", "f:3: stream A: unknown key 'subjets'; did you mean 'subjects'?"),
        ("stream: {}", "f:1: the file: unknown key 'stream'; did you mean 'streams'?"),
        ("streams:\n  A: {}\n  A: {}", "f:3: streams: 'A' is there twice, first in line 2"),
        ("streams:\n  A:\n    max_age: soon", "f:3: max_age: 'soon' is not a duration"),
        ("streams:\n  A:\n    max_msgs: many", "f:3: max_msgs: 'many' is not a number"),
        ("streams:\n  A:\n    storage: disk", "f:3: storage: 'disk' is not one of"),
        ("streams:\n  A:\n    no_ack: perhaps", "f:3: no_ack: 'perhaps' is not true or false"),
        ("streams:\n  A:\n    subjects: a", "f:3: subjects: a list is expected"),
        ("streams:\n  A:\n    subjects: [[a]]", "f:3: subjects: a value is expected"),
        ("streams:\n  A:\n    max_msgs:", "f:3: max_msgs: a value is expected"),
        ("streams:\n  A:\n    name: B", "f:3: stream A: unknown key 'name'"),
        ("streams:\n  A:\n    republish: {to: x}", "f:3: republish: unknown key 'to'"),
        ("streams:\n  a.b: {}", "f:2: 'a.b' cannot be the name of a stream"),
        ("streams: [A]", "f:1: streams: keys with values are expected"),
        ("kv:\n  a: {subjects: [a]}", "f:2: bucket a: unknown key 'subjects'"),
        ("streams:\n  A: {consumers: {c: {durable_name: d}}}", "f:2: consumer c: unknown key 'durable_name'"),
        ("streams:\n\tA: {}", "f:2: found character"),
        ("streams: {A: !!python/object/apply:os.system [x]}", "f:1: stream A: keys with values are expected"),
        ("a: &a [*a]", "f:1: the file: unknown key 'a'"),
        ("- " * 3000, "f"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        read_declarations(text, "f")
    assert str(refused.value).startswith(said)


def test_aliases_do_not_make_much_of_little() -> None:
    subjects = ", ".join(f"s{number}" for number in range(2000))
    text = f"streams:\n  A: {{subjects: &s [{subjects}]}}\n"
    text += "".join(f"  B{number}: {{subjects: *s}}\n" for number in range(600))
    with pytest.raises(DeclarationError, match="more than 1000000 values"):
        read_declarations(text, "f")
