"""Declarations in a server's configuration: the words of a file, in another syntax."""

from __future__ import annotations

import pytest

from slipstream.config.load import Probes
from slipstream.config.parser import parse_text
from slipstream.config.reload import diff
from slipstream.declared.config_block import block_problem, read_block
from slipstream.declared.reading import Declared
from slipstream.declared.yaml_file import read_declarations
from support.config_loading import errors, loaded

_PROBES = Probes(check_declared=block_problem)


def _read(text: str) -> Declared:
    return read_block(parse_text(text, name="s.conf"))


def _fields(declared: Declared) -> dict[str, object]:
    """What is declared, without places."""
    found: dict[str, object] = {}
    for kind in (declared.streams, declared.kv, declared.objects):
        for one in kind.values():
            consumers = None if one.consumers is None else {name: each.fields for name, each in one.consumers.items()}
            found[one.name] = (one.fields, consumers)
    return found


def test_it_says_the_same_as_a_file() -> None:
    block = _read("""
        age: "7d"
        streams {
          ORDERS {
            subjects: ["orders.>", "1.2", "no"], max_age: $age, max_bytes: 1GB, max_msgs: 1000, storage: memory
            allow_direct: yes, placement { tags: [ssd] }, metadata { owner: "12" }
            consumers { billing { ack_wait: 30s, backoff: [1s, "1m30s"] }, audit {} }
          }
          COPY { mirror { name: ORDERS, opt_start_time: 2026-01-01T00:00:00Z } }
        }
        kv { config { history: 5, ttl: 1h, max_value_size: 64KB } }
        objects { files { max_bucket_size: 10g } }
    """)
    file = read_declarations(
        """
streams:
  ORDERS:
    subjects: [orders.>, "1.2", "no"]
    max_age: 7d
    max_bytes: 1GiB
    max_msgs: 1000
    storage: memory
    allow_direct: yes
    placement: {tags: [ssd]}
    metadata: {owner: 12}
    consumers:
      billing: {ack_wait: 30s, backoff: [1s, 1m30s]}
      audit:
  COPY:
    mirror: {name: ORDERS, opt_start_time: 2026-01-01T00:00:00Z}
kv:
  config: {history: 5, ttl: 1h, max_value_size: 64KB}
objects:
  files: {max_bucket_size: 10000000000}
""",
        "f.yaml",
    )
    assert _fields(block) == _fields(file)
    assert str(block.streams["ORDERS"].place) == "s.conf:4"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("streams {\n A { subjets: [a] } }", "s.conf:2: stream A: unknown key 'subjets'; did you mean 'subjects'?"),
        ("streams {\n A { subjects: [1.2] } }", "s.conf:2: subjects: a text is expected; write it in quotes"),
        ("streams {\n A { description: yes } }", "s.conf:2: description: a text is expected; write it in quotes"),
        ("streams { A { metadata { a: 1 } } }", "s.conf:1: a: a text is expected; write it in quotes"),
        ("streams { A { max_age: 60 } }", "s.conf:1: max_age: 60 has no unit"),
        ("streams { A { max_msgs: true } }", "s.conf:1: max_msgs: 'true' is not a number"),
        ("streams { A { max_msgs: 1.5 } }", "s.conf:1: max_msgs: '1.5' is not a number"),
        ("streams { A { no_ack: 1 } }", "s.conf:1: no_ack: '1' is not true or false"),
        ("streams { A: 1 }", "s.conf:1: stream A: keys with values are expected"),
        ("kv { a.b {} }", "s.conf:1: 'a.b' cannot be the name of a bucket"),
        ("queues {}", "s.conf:1: declared: unknown key 'queues'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    found = block_problem(parse_text(text, name="s.conf"))
    assert found is not None
    assert f"{found[1]}: {found[0]}".startswith(said)


def test_bare_numbers_that_mean_the_same_in_every_unit() -> None:
    fields = _read("streams { A { max_age: 0, max_bytes: -1, duplicate_window: 0 } }").streams["A"].fields
    assert fields == {"max_age": 0, "max_bytes": -1, "duplicate_window": 0}


def test_variables_are_no_streams() -> None:
    assert list(_read("streams { age: 2h\n A { max_age: $age } }").streams) == ["A"]


def test_a_load_checks_it() -> None:
    text = "jetstream {\n declared { streams { A { x: 1 } } } }"
    assert errors(text, _PROBES) == ["t.conf:2:27: stream A: unknown key 'x'"]
    assert errors("jetstream { declared: 5 }", _PROBES) == ["t.conf:1:12: Expected a map to declare streams, got int64"]
    text = "accounts { A { jetstream { declared { kv { a.b {} } } } } }"
    assert "cannot be the name of a bucket" in errors(text, _PROBES)[0]


def test_a_reload_sees_what_changed_and_not_where_it_stands() -> None:
    before = loaded("jetstream { declared { streams { A { max_msgs: 5 } } } }").options
    moved = loaded("\n\njetstream { declared {\n streams { A { max_msgs: 5 } } } }").options
    other = loaded("jetstream { declared { streams { A { max_msgs: 6 } } } }").options
    assert diff(before, moved).changed == frozenset()
    assert diff(before, other).changed == {"jetstream.declared"}
    assert diff(before, other).actions[0].kind == "jetstream"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accounts { A {} }\njetstream { declared { streams { S {} } } }", "of a server with accounts belong to one"),
        (
            "accounts { SYS { jetstream { declared { kv { a {} } } } } }\nsystem_account: SYS",
            "the system account has no",
        ),
    ],
)
def test_whose_streams_they_are_must_be_clear(text: str, said: str) -> None:
    from slipstream.config.load import unsupported

    assert any(said in str(problem) for problem in unsupported(loaded(text).options))
