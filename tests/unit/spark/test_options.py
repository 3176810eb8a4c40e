"""Options of reads: defaults, values, and refusals that say what would be right."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest

from slipstream.spark.runtime.errors import OptionError
from slipstream.spark.runtime.target import Target
from slipstream.spark.source.options import ReadLimits, StartingPoint, read_source_options


def read(options: Mapping[str, str], *, streaming: bool = False):  # type: ignore[no-untyped-def]
    return read_source_options({"stream": "ORDERS", **options}, streaming=streaming)


def test_defaults_of_a_batch_read() -> None:
    options = read({})
    assert options.target == Target("stream", ("ORDERS",))
    assert options.reach.servers == "nats://127.0.0.1:4222"
    assert options.start == StartingPoint(None, None, False)
    assert options.limits == ReadLimits()
    assert (options.fail_on_data_loss, options.adjust, options.hold) == (True, False, True)
    assert (options.batch_rows, options.batch_bytes, options.target_bytes) == (65_536, 4 << 20, 128 << 20)
    assert options.subjects == ()


def test_a_stream_starts_at_the_end_and_a_batch_at_the_beginning() -> None:
    assert read({}, streaming=True).start.latest
    assert not read({"starting": "earliest"}, streaming=True).start.latest
    assert read({"starting": "latest"}).start.latest
    assert read({"startingSequence": "7"}, streaming=True).start == StartingPoint(7, None, False)


def test_names_come_in_any_case() -> None:
    options = read({"maxmessagespertrigger": "5", "MAXBYTESPERTRIGGER": "2m", "maxTriggerDelay": "1m30s"})
    assert options.limits == ReadLimits(max_messages=5, max_bytes=2 << 20, max_delay_ns=90 * 10**9)


def test_keys_of_a_bucket_are_filters() -> None:
    def subjects(bucket: str, words: str) -> tuple[str, ...]:
        found: tuple[str, ...] = read_source_options({"bucket": bucket, "subjects": words}, streaming=False).subjects
        return found

    assert subjects("b", "k0,a.*,$KV.b.k1") == ("$KV.b.k0", "$KV.b.a.*", "$KV.b.k1")
    assert subjects("b,c", "k0") == ("$KV.b.k0", "$KV.c.k0")
    assert subjects("b", ">") == ()


def test_options_travel_to_tasks() -> None:
    options = read({"subjects": "orders.eu.>, orders.us.>", "columns": "seq,payload"})
    assert pickle.loads(pickle.dumps(options)) == options
    assert options.subjects == ("orders.eu.>", "orders.us.>")
    assert options.columns == ("seq", "payload")


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2026-01-02T03:04:05Z", 1_767_323_045_000_000_000),
        ("2026-01-02T03:04:05.000001", 1_767_323_045_000_001_000),
        ("2026-01-02T04:04:05+01:00", 1_767_323_045_000_000_000),
        ("1767323045000", 1_767_323_045_000_000_000),
    ],
)
def test_times(text: str, nanoseconds: int) -> None:
    assert read({"startingTime": text}).start.time_ns == nanoseconds


def test_targets() -> None:
    several = read_source_options({"streams": "ORDERS, EVENTS*"}, streaming=False).target
    assert several.stream_names == ("ORDERS", "EVENTS*") and several.has_patterns
    assert read_source_options({"bucket": "prices"}, streaming=False).target.one == "KV_prices"
    assert read_source_options({"objectStore": "files"}, streaming=False).target.one == "OBJ_files"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxMesagesPerTrigger": "5"}, "did you mean 'maxMessagesPerTrigger'"),
        ({"foo": "5"}, "is unknown"),
        ({"startingSequence": "0"}, "whole number from 1"),
        ({"startingSequence": "5", "startingTime": "2026-01-01"}, "cannot be combined"),
        ({"starting": "middle"}, "earliest, latest"),
        ({"maxBytesPerTrigger": "many"}, "not a size"),
        ({"maxTriggerDelay": "5"}, "not a duration"),
        ({"maxTriggerDelay": "-5s"}, "not more than nothing"),
        ({"endingTime": "yesterday"}, "not a time"),
        ({"failOnDataLoss": "perhaps"}, "neither true nor false"),
        ({"transport": "pigeon"}, "auto, bulk, direct, consumer"),
        ({"numPartitions": "1000000"}, "to 10000"),
        ({"payloadFormat": "json"}, "goes together"),
        ({"payloadSchema": "a int"}, "goes together"),
        ({"bucket": "b"}, "cannot be combined with 'stream'"),
        ({"domain": "hub", "apiPrefix": "$JS.x.API"}, "cannot be combined"),
        ({"tlsCert": "a.pem"}, "tlsKey"),
        ({"user": "ada"}, "passwordEnv"),
        ({"credsFile": "a.creds", "nkeyFile": "b.nk"}, "cannot be combined"),
    ],
)
def test_refusals_say_what_would_be_right(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as refused:
        read(options)
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["password", "token", "nkey", "creds"])
def test_secrets_are_refused_as_values_and_not_repeated(name: str) -> None:
    with pytest.raises(OptionError, match="query plans") as refused:
        read({name: "s3cret"})
    assert "s3cret" not in str(refused.value)


def test_secrets_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(OptionError, match="query plans") as refused:
        read({"servers": "nats://ada:s3cret@host:4222"})
    assert "s3cret" not in str(refused.value)


def test_variables_hold_secrets_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_TOKEN", "s3cret")
    options = read({"tokenEnv": "ORDERS_TOKEN"})
    assert options.reach.token_env == "ORDERS_TOKEN" and "s3cret" not in repr(options)
    with pytest.raises(OptionError, match="set it before Spark starts"):
        read({"tokenEnv": "NO_SUCH_VARIABLE_HERE"})
    with pytest.raises(OptionError, match="not the secret itself"):
        read({"tokenEnv": "s3cret with blanks"})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stream": ""},
        {"stream": "A,B"},
        {"stream": "a.b"},
        {"bucket": "a b"},
        {"objectStore": "a,b"},
        {"streams": ">"},
    ],
)
def test_targets_that_are_none(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        read_source_options(options, streaming=False)


def test_filters_are_pushed_only_when_asked_for() -> None:
    assert not read({}).pushdown
    assert read({"pushdown": "true"}).pushdown


def test_option_errors_cross_processes() -> None:
    with pytest.raises(OptionError) as refused:
        read({"starting": "middle"})
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (str(copy), copy.option) == (str(refused.value), "starting")


def test_the_way_to_a_server_is_the_bulk_client_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_PASSWORD", "s3cret")
    given = {"servers": "tls://a:1,tls://b:2", "user": "ada", "passwordEnv": "ORDERS_PASSWORD", "tlsCa": "ca.pem"}
    connect = read({**given, "domain": "hub", "connectTimeout": "3s"}).reach
    assert (connect.servers, connect.user, connect.password_env) == ("tls://a:1,tls://b:2", "ada", "ORDERS_PASSWORD")
    assert (connect.tls_ca, connect.prefix, connect.timeout) == ("ca.pem", "$JS.hub.API.", 3.0)
