"""Reading and writing JSON like Go: every expected text below was taken from nats-server 2.15.1."""

# ruff: noqa: E501  the long lines are texts to be compared as a whole

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.jetstream.config.structs import STREAM_CONFIG_REQUEST, StreamConfig
from slipstream.jetstream.gojson import JsonError, bind, encode
from slipstream.jetstream.gojson.parse import Unusual, parse
from slipstream.jetstream.gojson.scan import go_quote, value_end
from slipstream.jetstream.gojson.times import (
    ZERO_TIME_NS,
    format_duration,
    format_time,
    parse_duration,
    parse_time,
)

_FIELD = "json: cannot unmarshal {} into Go struct field StreamConfigRequest.{} of type {}"

REFUSED = [
    (b"{", "unexpected EOF"),
    (b'{"name', "unexpected EOF"),
    (b'{"name"', "unexpected EOF"),
    (b'{"name":"A",', "unexpected EOF"),
    (b'{"name":"A"}[', "unexpected EOF"),
    (b"tru", "unexpected EOF"),
    (b'{"a":"\xff\xfe', "unexpected EOF"),
    (b'{"name":"A"}x', "invalid character 'x' looking for beginning of value at offset 13"),
    (b"nulx", "invalid character 'x' in literal null (expecting 'l') at offset 4"),
    (b'{"name":A}', "invalid character 'A' looking for beginning of value at offset 9"),
    (b'{name:"A"}', "invalid character 'n' looking for beginning of object key string at offset 2"),
    (b"{'name':1}", r"invalid character '\'' looking for beginning of object key string at offset 2"),
    (b'{"name":"A",}', "invalid character '}' looking for beginning of object key string at offset 13"),
    (b'{"name":"\\x"}', r"invalid escape sequence `\x` in string at offset 11"),
    (b'{"name":"\\u12"}', r'invalid escape sequence `\u12"}` in string at offset 15'),
    (b'{"name":"A\n"}', r"invalid character '\n' in string at offset 11"),
    (b'{"a":"\x01"}', r"invalid character '\x01' in string at offset 7"),
    (b'{"name":"A","max_msgs":01}', "invalid character '1' after object key:value pair at offset 25"),
    (b'{"name":"A","max_msgs":1.}', "invalid character '}' in numeric literal at offset 26"),
    (b'{"name":"A","max_msgs":-}', "invalid character '}' in numeric literal at offset 25"),
    (b'{"name":"A","max_msgs":+1}', "invalid character '+' looking for beginning of value at offset 24"),
    (b'{"name":"A","max_msgs":.5}', "invalid character '.' looking for beginning of value at offset 24"),
    (b'{"name":"A","max_msgs":1e}', "invalid character '}' in numeric literal at offset 26"),
    (b'{"name":"A","subjects":["a",]}', "invalid character ']' looking for beginning of value at offset 29"),
    (b'{"name":"A","subjects":["a" "b"]}', "invalid character '\"' after array element at offset 29"),
    (b'{"name" "A"}', "invalid character '\"' after object key at offset 9"),
    (b'{"name":"A" "b":1}', "invalid character '\"' after object key:value pair at offset 13"),
    (b"{,}", "invalid character ',' looking for beginning of object key string at offset 2"),
    (b"\xef\xbb\xbf{}", r"invalid character '\ufeff' looking for beginning of value at offset 3"),
    (b"\x00", r"invalid character '\x00' looking for beginning of value at offset 1"),
    (b"\xff", r"invalid character '\xff' looking for beginning of value at offset 1"),
    (b"\xc3\xa9", "invalid character 'é' looking for beginning of value at offset 2"),
    (b'{"a":1\xc3\xa9', "invalid character 'é' after object key:value pair at offset 8"),
    (b"}", "invalid character '}' looking for beginning of value at offset 1"),
    (b"[" * 100_000, "exceeded max depth at offset 10001"),
    (b'{"name":' + b"[" * 100_000, "exceeded max depth at offset 10008"),
    (b'{"a":' * 100_000, "exceeded max depth at offset 50001"),
    (b"[]", "json: cannot unmarshal array into Go value of type server.StreamConfigRequest"),
    (b"1", "json: cannot unmarshal number into Go value of type server.StreamConfigRequest"),
    (b'"x"', "json: cannot unmarshal string into Go value of type server.StreamConfigRequest"),
    (b"true", "json: cannot unmarshal bool into Go value of type server.StreamConfigRequest"),
    (b'{"name":"A"} 5', "json: cannot unmarshal number into Go value of type server.StreamConfigRequest"),
    (b'{"zz":' + b"[" * 9_990 + b"]" * 9_990 + b"}", 'json: unknown field "zz"'),
    (b'{"x":2,"max_msgs":"1"}', 'json: unknown field "x"'),
    (b'{"max_msgs":"1","x":2}', _FIELD.format("string", "max_msgs", "int64")),
    (b'{"max_msgs":"1"} {', _FIELD.format("string", "max_msgs", "int64")),
    (b'{"z\\"z":1}', r'json: unknown field "z\"z"'),
    ('{"zé\u2028z":1}'.encode(), r'json: unknown field "zé\u2028z"'),
    (b'{"\\u0000":1}', r'json: unknown field "\x00"'),
    (b'{"\xff":1}', 'json: unknown field "\ufffd"'),
    (b'{"placement":{"x":1}}', 'json: unknown field "x"'),
    (b'{"placement":{"tags":1}}', _FIELD.format("number", "placement.tags", "[]string")),
    (b'{"placement":{"tags":[1]}}', "json: cannot unmarshal number into StreamConfigRequest.placement.tags.0 of type string"),
    (b'{"subjects":["a",1]}', "json: cannot unmarshal number into StreamConfigRequest.subjects.1 of type string"),
    (b'{"metadata":{"a":1}}', _FIELD.format("number", "metadata.a", "string")),
    (b'{"sources":[1]}', "json: cannot unmarshal number into StreamConfigRequest.sources.0 of type server.StreamSource"),
    (b'{"sources":{}}', _FIELD.format("object", "sources", "[]*server.StreamSource")),
    (b'{"sources":[{"external":{"api":1}}]}', _FIELD.format("number", "sources.0.external.api", "string")),
    (b'{"consumer_limits":{"max_ack_pending":"x"}}', _FIELD.format("string", "consumer_limits.max_ack_pending", "int")),
    (b'{"max_msg_size":3000000000}', _FIELD.format("number 3000000000", "max_msg_size", "int32")),
    (b'{"max_msgs":1e2}', _FIELD.format("number 1e2", "max_msgs", "int64")),
    (b'{"max_msgs":1.0}', _FIELD.format("number 1.0", "max_msgs", "int64")),
    (b'{"first_seq":-1}', _FIELD.format("number -1", "first_seq", "uint64")),
    (b'{"max_age":"1s"}', _FIELD.format("string", "max_age", "time.Duration")),
    (b'{"retention":"Limits"}', r'can not unmarshal "\"Limits\""'),
    (b'{"retention": "l\\u0069mits"}', r'can not unmarshal "\"l\\u0069mits\""'),
    (b'{"retention": {"a" : 1 } }', r'can not unmarshal "{\"a\" : 1 }"'),
    (b'{"retention":null}', 'can not unmarshal "null"'),
    (b'{"persist_mode":"x"}', r'can not unmarshal "\"x\""'),
    (b'{"compression":"S2"}', "unknown compression algorithm"),
    (b'{"compression":null}', "unknown compression algorithm"),
    (b'{"compression":1}', "json: cannot unmarshal number into Go value of type string"),
    (b'{"mirror":{"opt_start_time":1}}', _FIELD.format("number", "mirror.opt_start_time", "time.Time")),
    (b'{"mirror":{"opt_start_time":"x"}}', 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
    (b'{"mirror":{"opt_start_time":"2020-01-01"}}', 'parsing time "2020-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"'),
    (b'{"mirror":{"opt_start_time":"2020-13-01T00:00:00Z"}}', 'parsing time "2020-13-01T00:00:00Z": month out of range'),
    (b'{"mirror":{"opt_start_time":"2020-02-30T00:00:00Z"}}', 'parsing time "2020-02-30T00:00:00Z": day out of range'),
    (b'{"mirror":{"opt_start_time":"2020-01-01T00:00:00Zx"}}', 'parsing time "2020-01-01T00:00:00Zx": extra text: "x"'),
]  # fmt: skip


@pytest.mark.parametrize(("body", "text"), REFUSED, ids=[str(index) for index in range(len(REFUSED))])
def test_refusals_have_gos_words(body: bytes, text: str) -> None:
    with pytest.raises(JsonError) as caught:
        STREAM_CONFIG_REQUEST.decode(body)
    assert str(caught.value) == text


def test_an_empty_body_gives_the_defaults() -> None:
    assert STREAM_CONFIG_REQUEST.decode(b" \n").config() == StreamConfig()
    assert STREAM_CONFIG_REQUEST.decode(b"null").config() == StreamConfig()


def test_names_are_matched_without_regard_to_case() -> None:
    assert STREAM_CONFIG_REQUEST.decode(b'{"NAME":"A","Max_Msgs":3}').max_msgs == 3


def test_documents_are_read_one_after_the_other() -> None:
    request = STREAM_CONFIG_REQUEST.decode(
        b'{"name":"A","metadata":{"a":"1"}} {"metadata":{"b":"2"},"description":"d"}'
    )
    assert (request.name, request.description, request.metadata) == ("A", "d", {"a": "1", "b": "2"})


def test_null_leaves_plain_fields_and_clears_the_others() -> None:
    request = STREAM_CONFIG_REQUEST.decode(
        b'{"name":"A","subjects":["x"],"mirror":{"name":"B"}}{"name":null,"subjects":null,"mirror":null}'
    )
    assert (request.name, request.subjects, request.mirror) == ("A", [], None)


def test_broken_unicode_becomes_the_replacement_character() -> None:
    request = STREAM_CONFIG_REQUEST.decode(b'{"name":"\\ud800","description":"\xff"}')
    assert (request.name, request.description) == ("\ufffd", "\ufffd")


def test_discard_alone_ignores_case() -> None:
    assert STREAM_CONFIG_REQUEST.decode(b'{"discard":"NEW"}').discard.value == "new"


def test_long_flat_lists_are_scanned_to_their_end() -> None:
    body = b"[" + b'1, "x",' * 200_000 + b"1]"
    assert value_end(body, 0) == len(body)


def test_a_flood_of_values_is_refused() -> None:
    with pytest.raises(JsonError, match="more than 5000 values"):
        value_end(b"[" + b"[]," * 100_000 + b"[]]", 0)


def test_html_characters_are_escaped() -> None:
    assert encode({"a": "<&>\u2028"}) == rb'{"a":"\u003c\u0026\u003e\u2028"}'


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (ZERO_TIME_NS, "0001-01-01T00:00:00Z"),
        (0, "1970-01-01T00:00:00Z"),
        (1_500_000_000, "1970-01-01T00:00:01.5Z"),
        (1_763_173_337_721_057_046, "2025-11-15T02:22:17.721057046Z"),
    ],
)
def test_times_round_trip(time_ns: int, text: str) -> None:
    assert format_time(time_ns) == text
    assert parse_time(text) == time_ns


def test_offsets_are_turned_into_utc() -> None:
    assert parse_time("1970-01-01T02:00:00.5+02:00") == 500_000_000
    assert parse_time("1969-12-31T23:00:00-01:00") == 0


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (100_000_000, "100ms"),
        (1_500_000_000, "1.5s"),
        (60_000_000_000, "1m0s"),
        (3_723_000_000_000, "1h2m3s"),
        (-5_000_000_000, "-5s"),
    ],
)
def test_durations_round_trip(duration_ns: int, text: str) -> None:
    assert format_duration(duration_ns) == text
    assert parse_duration(text) == duration_ns


@pytest.mark.parametrize("text", ["", "x", "1", "1x", "-", ".s", "1s1", "9999999999h", "1 s"])
def test_what_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


def test_quoting_is_gos() -> None:
    assert go_quote('a"\\\n\x00\x7f\u200b😀') == '"a\\"\\\\\\n\\x00\\x7f\\u200b😀"'


_TEXTS = st.sampled_from(
    ["a", "S.>", "old", "NEW", "limits", "file", "s2", "", "\u00e9", "\ud83d\ude00", "2024-05-01T00:00:00Z"]
) | st.text(max_size=3)
_VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.sampled_from(
    [
        *(
            "name",
            "NAME",
            "subjects",
            "retention",
            "discard",
            "storage",
            "compression",
            "max_age",
            "metadata",
            "sources",
        ),
        *(
            "mirror",
            "placement",
            "sealed",
            "first_seq",
            "subject_transform",
            "republish",
            "consumer_limits",
            "nonsense",
        ),
    ]
)
_SOURCES = st.lists(
    st.fixed_dictionaries({"name": _TEXTS}, optional={"opt_start_time": _TEXTS, "subject_transforms": _VALUES}),
    max_size=2,
)
_BODIES = st.dictionaries(_NAMES, _VALUES | st.lists(_TEXTS, max_size=3) | _SOURCES, max_size=4)


def _outcome(body: bytes) -> object:
    try:
        return STREAM_CONFIG_REQUEST.decode(body)
    except JsonError as error:
        return str(error)


@given(_BODIES, st.booleans(), st.sampled_from([b"", b" ", b"{}", b"x", b'{"name":"B"}']))
def test_the_fast_path_gives_what_the_slow_one_gives(body: dict[str, object], ascii_only: bool, behind: bytes) -> None:
    data = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") + behind
    short = _outcome(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bind, "parse", _refuse)
        assert short == _outcome(data)


def _refuse(_body: bytes) -> object:
    raise Unusual


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"a":1,"a":2}',
        b'{"a":1.0}',
        b'{"a":1e3}',
        b'{"a":-0}',
        b'{"a":NaN}',
        b'"\\ud800"',
        b'"l\\u0069mits"',
        b'"\xff"',
        b"{}{}",
        b"[" * 100_000,
        b'"' + b"x" * (2 << 20) + b'"',
    ],
)
def test_what_needs_a_closer_look(body: bytes) -> None:
    with pytest.raises(Unusual):
        parse(body)


@pytest.mark.parametrize("body", [b'{"subjects":["s.\\u003e"],"at":"2024-01-02"}', b'{"name":"S","max_age":-1}'])
def test_what_clients_write_needs_none(body: bytes) -> None:
    assert parse(body) == json.loads(body)


def test_a_flood_of_documents_is_refused() -> None:
    with pytest.raises(JsonError, match="more than 1000 documents"):
        STREAM_CONFIG_REQUEST.decode(b'{"name":"S"} ' * 1_001)


def test_a_flood_of_objects_needs_a_closer_look() -> None:
    with pytest.raises(JsonError, match="more than 5000 values"):
        STREAM_CONFIG_REQUEST.decode(b'{"sources":[' + b"{}," * 25_000 + b"{}]}")
