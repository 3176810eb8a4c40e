"""Texts: bodies of requests, configurations, checkpoints."""

from __future__ import annotations

import base64
import json
from unittest.mock import patch

import msgspec
from nacl.signing import SigningKey

from fuzz.target import ACCOUNT_COST, Target, option
from slipstream.auth.nkeys import KeyKind, encode_public_key
from slipstream.config.dump import dump_options
from slipstream.config.keys.server import SERVER
from slipstream.config.load import Probes, load
from slipstream.config.parser import parse_file
from slipstream.config.validate import problems, unsupported
from slipstream.declared.config_block import block_problem
from slipstream.errors import ConfigError
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.consumers import _CREATE, _PAUSE
from slipstream.jetstream.api.restoring import _RESTORE
from slipstream.jetstream.config.structs import CONSUMER_CONFIG, STREAM_CONFIG_REQUEST
from slipstream.jetstream.consumer import requests
from slipstream.jetstream.gojson import JsonError, encode
from slipstream.jetstream.gojson import bind as binding
from slipstream.jetstream.gojson.parse import Unusual
from slipstream.jetstream.store.checkpoints import Checkpoint, read_checkpoint
from support.consumer_world import ConsumerWorld

# --- JSON -----------------------------------------------------------------------------------------------------------

STRUCTS = (
    STREAM_CONFIG_REQUEST,
    CONSUMER_CONFIG,
    _CREATE,
    _RESTORE,
    _PAUSE,
    bodies.MSG_GET,
    bodies.STREAM_INFO,
    bodies.STREAM_PURGE,
    bodies.MSG_DELETE,
    bodies.STREAM_LIST,
)


def json_body(data: bytes) -> None:
    """The quick reading is the careful one; what was read, written and read again is the same."""
    flags, body = option(data)
    struct = STRUCTS[flags % len(STRUCTS)]
    strict = flags < 128
    quick = _decoded(struct, body, strict)
    with patch.object(binding, "parse", _never):
        careful = _decoded(struct, body, strict)
    assert quick == careful
    if not isinstance(quick, str):
        written = encode(struct.wire(quick))
        again = struct.decode(written)
        assert encode(struct.wire(again)) == written


def _decoded(struct: binding.GoStruct[object], body: bytes, strict: bool) -> object:  # type: ignore[type-var]
    try:
        return struct.decode(body, strict=strict)
    except JsonError as error:
        return str(error)


def _never(_body: bytes) -> object:
    raise Unusual


def pull_body(data: bytes) -> None:
    """A pull request is read or refused, and the quick reading is the careful one."""
    quick = _pulled(data)
    with patch.object(requests, "_plain_body", _refuses):
        assert _pulled(data) == quick


def _pulled(body: bytes) -> object:
    try:
        request = requests.read_request(b"to", body, 5)
    except JsonError as error:
        return str(error)
    return [getattr(request, name) for name in request.__slots__]


def _refuses(_body: bytes) -> object:
    raise msgspec.ValidationError


STREAM = (
    b'{"name":"S","subjects":["s.>"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,'
    b'"discard":"old","storage":"memory","num_replicas":1,"duplicate_window":120000000000,"placement":{"tags":["a"]},'
    b'"sources":[{"name":"O","opt_start_time":"2024-01-01T00:00:00Z","external":{"api":"a","deliver":"b"}}],'
    b'"subject_transform":{"src":">","dest":"x.>"},"republish":{"src":">","dest":"r.>"},"metadata":{"k":"v"},'
    b'"consumer_limits":{"max_ack_pending":5},"compression":"none","allow_direct":true,"first_seq":7}'
)
CONSUMER = (
    b'{"durable_name":"C","ack_policy":"explicit","deliver_policy":"by_start_sequence","opt_start_seq":3,"backoff":[1,2],'
    b'"filter_subjects":["s.a","s.b"],"max_deliver":3,"replay_policy":"instant","inactive_threshold":5000000000,'
    b'"priority_groups":["g"],"priority_policy":"overflow","metadata":null}'
)


def json_seeds() -> list[bytes]:
    return [
        b"\0" + STREAM,
        b"\1" + CONSUMER,
        b'\2{"stream_name":"S","config":' + CONSUMER + b',"action":"create"}',
        b'\3{"config":' + STREAM + b',"state":{"messages":1,"first_seq":1,"lost":{"msgs":[1,2],"bytes":3}}}',
        b'\4{"pause_until":"2030-01-01T00:00:00.5+02:00"}',
        b'\5{"seq":1,"batch":2,"multi_last":["a","b"],"start_time":"2024-02-29T23:59:59Z","up_to_seq":3}',
        b'\6{"deleted_details":true,"subjects_filter":">","offset":1} {}',
        b'\7{"seq":18446744073709551615,"keep":2,"filter":"a\\u00e9"}',
    ]


def pull_seeds() -> list[bytes]:
    return [
        b'{"batch":5,"expires":1000000000,"no_wait":true,"idle_heartbeat":5,"group":"g","id":"x"}',
        b"5",
        b" +7 ",
        b"",
    ]


JSON_WORDS = tuple(
    b'{|}|[|]|,|:|null|true|false|""|"\\ud800"|"\\ud83d\\ude00"|"\\u0000"|"\xff"|1e3|1.0|-0|0|01|-1|9223372036854775807|'
    b'9223372036854775808|18446744073709551615|18446744073709551616|"limits"|"workqueue"|"NAME"|"Name":|"max_age":|'
    b'"subjects":|"sources":|"metadata":|"backoff":|"2024-01-01T00:00:00Z"|"config":|"placement":|\n|\t'.split(b"|")
)

# --- requests -------------------------------------------------------------------------------------------------------

REQUESTS = (
    "STREAM.CREATE.T",
    "STREAM.UPDATE.S",
    "CONSUMER.CREATE.S",
    "CONSUMER.DURABLE.CREATE.S.D",
    "STREAM.PURGE.S",
    "STREAM.MSG.GET.S",
    "STREAM.MSG.DELETE.S",
    "DIRECT.GET.S",
    "CONSUMER.MSG.NEXT.S.C",
    "STREAM.INFO.S",
    "STREAM.SNAPSHOT.S",
    "CONSUMER.PAUSE.S.C",
    "CONSUMER.RESET.S.C",
    "STREAM.LIST",
    "STREAM.TRUNCATE.S",
    "CONSUMER.WHY.S.C",
)


def request(data: bytes) -> None:
    """Whatever is asked of an account, nothing raises, and it goes on: streams take messages, consumers give them."""
    flags, body = option(data)
    world = ConsumerWorld()
    world.create("S", subjects=["s.>"], storage="memory", allow_direct=True)
    world.publish("s.1")
    world.publish("s.2")
    world.api(
        "CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "none"}}
    )
    subject = REQUESTS[flags % len(REQUESTS)]
    answers = world.request_all("$JS.API." + subject, body)
    assert answers or subject in ("CONSUMER.MSG.NEXT.S.C", "DIRECT.GET.S")
    if not subject.startswith(("CONSUMER.MSG", "DIRECT")):
        said = json.loads(answers[0][1])
        assert said.get("error", {}).get("code") != 500 or said["error"]["err_code"] != 10_000 + 93, said
    world.ports.advance(5_000_000_000)
    before = world.account.streams["S"].store.last_seq
    answer = world.publish("s.after")
    assert answer is None or "error" in answer or answer["seq"] > before
    assert world.api("STREAM.INFO.S")["config"]["name"] == "S"


def request_seeds() -> list[bytes]:
    return [
        b"\0" + STREAM.replace(b'"S"', b'"T"').replace(b"s.>", b"t.>"),
        b'\1{"name":"S","subjects":["s.>","u"],"storage":"memory","max_msgs":1,"max_age":1000000000,"allow_direct":true}',
        b'\2{"stream_name":"S","config":' + CONSUMER + b"}",
        b'\3{"stream_name":"S","config":{"durable_name":"D","deliver_subject":"to","ack_policy":"all","rate_limit_bps":9}}',
        b'\4{"filter":"s.1","keep":1}',
        b'\5{"last_by_subj":"s.1"}',
        b'\6{"seq":1}',
        b'\7{"multi_last":["s.>"],"batch":5}',
        b'\x08{"batch":5,"expires":1000000000,"idle_heartbeat":100000000}',
        b'\x09{"subjects_filter":">"}',
        b'\x0a{"deliver_subject":"to","chunk_size":1024}',
        b'\x0b{"pause_until":"2030-01-01T00:00:00Z"}',
        b'\x0e{"after_time":"2030-01-01T00:00:00Z","force":true}',
        b'\x0e{"newest":1}',
        b'\x03{"stream_name":"S","config":{"durable_name":"D","ack_policy":"explicit","metadata":{"slipstream.delivery":"fair",'
        b'"slipstream.delivery.key":"token:2","slipstream.delivery.rate":"5/s","slipstream.delivery.ahead":"7"}}}',
        b'\x00{"name":"T","subjects":["t.*"],"storage":"memory","metadata":{"slipstream.template":"X_{2}",'
        b'"slipstream.template.max":"3","slipstream.template.idle":"5m"}}',
    ]


# --- configurations -------------------------------------------------------------------------------------------------

_PROBES = Probes(
    check_tls=lambda _tls: None, check_mapping=lambda _source, _destination: None, check_declared=block_problem
)


def configuration(data: bytes) -> None:
    """Loaded or refused with a ConfigError that can be shown; what is loaded can be checked and shown."""

    def read(path: str) -> bytes:
        if path != "x.conf":
            raise FileNotFoundError(2, "no such file", path)
        return data

    try:
        options = load(parse_file("x.conf", read=read, environment={"a": "$b", "b": "[1", "c": "7k"}), probes=_PROBES)
    except ConfigError as error:
        str(error).encode("utf-8", "backslashreplace")
        return
    problems(options.options)
    unsupported(options.options)
    json.loads(dump_options(options.options))


def config_seeds() -> list[bytes]:
    return [
        b'port: 4222\nhost = "127.0.0.1"; debug: true\nmax_payload: 1MB\nping_interval: "2m"\nserver_name: x\n',
        b"authorization {\n users = [{user: a, password: b, permissions: {publish: {allow: [a.>]}}}\n {nkey: UX}]\n}\n",
        b"accounts { A { users: [{user: a}], exports: [{service: q}], jetstream: {max_mem: 1k} } # c\n B { imports: "
        b"[{service: {account: A, subject: q}}], mappings: { x: [{dest: y, weight: 50%}] } } }\nsystem_account: A",
        b"jetstream { store_dir: /tmp/x, max_mem: $c }\nwebsocket { port: 1, no_tls: true }\nfoo: (\nblock\n)\n// c\n",
        b"jetstream { declared { streams { S { subjects: [a], max_age: 1d, mirror: {name: T}, consumers { c { backoff: "
        b"[1s] } } } } kv { b { ttl: 1h } } objects { o { max_bucket_size: $c } } } }",
        b"include 'y.conf'\ntls { cert_file: a, key_file: b, timeout: 1.5 }\nlimits { max_subs: -1 }\nmqtt {}\n",
    ]


CONFIG_WORDS = (
    *(name.encode() + b": " for key in SERVER.keys for name in key.names),
    *b'{|}|[|]|(|)\n|"|\\|\\x0|#|//|$a|$c|$2a$|include |1kb|1.5|2016-01-01T00:00:00Z|\xff|\xe2\x80\xa8|\n|\0'.split(
        b"|"
    ),
    b"'",
)


# --- checkpoints ----------------------------------------------------------------------------------------------------


def checkpoint(data: bytes) -> None:
    """Anything but what was signed is refused, with a reason; what is read has a place in a chain."""
    try:
        found = read_checkpoint(data)
    except ValueError as error:
        str(error).encode("utf-8", "backslashreplace")
        return
    assert found.is_genuine and len(found.place.link) == 32
    assert msgspec.json.decode(data)["signature"]
    text = json.loads(found.signed_text)
    assert {**text, "signature": found.signature} == msgspec.structs.asdict(found)


def checkpoint_seeds() -> list[bytes]:
    plain = Checkpoint(
        account="$G", stream="S", identity="0" * 32, records=5, link="ab" * 32, last_seq=3, time="now", server=_SERVER
    )
    signature = bytes(SigningKey(bytes(32)).sign(plain.signed_text).signature)
    return [
        msgspec.json.encode(msgspec.structs.replace(plain, signature=base64.urlsafe_b64encode(signature).decode())),
        msgspec.json.encode(plain),
    ]


_SERVER = encode_public_key(KeyKind.SERVER, bytes(SigningKey(bytes(32)).verify_key))

TARGETS = (
    Target("checkpoint", checkpoint, checkpoint_seeds, (b'"records":', b'"link":', b'"signature":', *JSON_WORDS)),
    Target("json", json_body, json_seeds, JSON_WORDS),
    Target("pull-request", pull_body, pull_seeds, (b'"batch":', b'"expires":', *JSON_WORDS)),
    Target("request", request, request_seeds, JSON_WORDS, cost=ACCOUNT_COST),
    Target("configuration", configuration, config_seeds, CONFIG_WORDS),
)
