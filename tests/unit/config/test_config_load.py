"""Top-level keys, defaults, overrides, and errors that name their place."""

from __future__ import annotations

import pytest

from slipstream.config.keys.server import SERVER
from slipstream.config.load import ConfigErrors, load
from slipstream.config.options import Options
from slipstream.units import MINUTE_NS, SECOND_NS
from support.config_loading import errors, loaded, options


def test_no_file_gives_the_defaults() -> None:
    defaults = load(None).options
    assert defaults == Options(http_host="0.0.0.0")
    assert (defaults.port, defaults.max_payload, defaults.max_pending) == (4222, 1 << 20, 64 << 20)
    assert (defaults.ping_interval_ns, defaults.ping_max) == (2 * MINUTE_NS, 2)
    assert defaults.authorization.timeout_ns == 2 * SECOND_NS
    assert defaults.jetstream.sync_always
    assert defaults.system_account_name == "$SYS"


def test_every_kind_of_key() -> None:
    got = options(
        """
        listen: "localhost:4333"
        http: "127.0.0.1:8222"
        server_name: n1
        server_tags: [A, " b ", a]
        server_metadata { region: eu }
        feature_flags { x: true }
        debug: true
        trace_verbose: yes
        logfile: "a.log", logfile_size_limit: 1MB
        max_connections: 0
        max_subs: 10
        max_sub_tokens: 16
        max_payload: 2MB
        ping_interval: "30s"
        write_deadline: "5s"
        write_timeout: retry
        lame_duck_duration: "40s"
        system: SYS
        store_dir: "/data"
        """
    )
    assert (got.host, got.port, got.http_host, got.http_port) == ("localhost", 4333, "127.0.0.1", 8222)
    assert got.server_tags == ("a", "b")
    assert (got.server_metadata, got.feature_flags) == ({"region": "eu"}, {"x": True})
    assert (got.debug, got.trace, got.trace_verbose) == (True, True, True)
    assert got.logfile_size_limit == 1 << 20
    assert (got.max_connections, got.max_subscriptions, got.max_sub_tokens) == (-1, 10, 16)
    assert (got.ping_interval_ns, got.write_deadline_ns) == (30 * SECOND_NS, 5 * SECOND_NS)
    assert (got.write_timeout, got.lame_duck_duration_ns) == ("retry", 40 * SECOND_NS)
    assert (got.system_account, got.jetstream.store_dir, got.jetstream.enabled) == ("SYS", "/data", False)


def test_keys_have_any_case_and_aliases() -> None:
    got = options("PORT: 1\nMax_Conn: 5\nPid_File: x\nno_sublist_cache: true")
    assert (got.port, got.max_connections, got.pidfile, got.disable_sublist_cache) == (1, 5, "x", True)


def test_zero_means_the_default() -> None:
    got = options('port: 0, max_payload: 0, ping_max: 0, write_deadline: "0s", host: ""')
    assert got == options("port: 4222")


def test_every_name_of_the_table_is_accepted() -> None:
    """A key that is read but whose field does not exist would be a TypeError, not a ConfigError."""
    samples: tuple[object, ...] = ("true", "5", '"5s"', '"60s"', "text", "[]", "{}", "MEMORY", "default", '"a:5"')
    for key in SERVER.keys:
        accepted = 0
        for sample in samples:
            try:
                loaded(f"{key.names[-1]}: {sample}")
                accepted += 1
            except ConfigErrors:
                continue
        assert accepted, key.names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("debug: true\nfoo: 1", ['t.conf:2:1: unknown field "foo"']),
        ("port: x", ["t.conf:1:0: interface conversion: interface {} is string, not int64"]),
        ("debug: 1.5", ["t.conf:1:0: interface conversion: interface {} is float64, not bool"]),
        ("host: []", ["t.conf:1:0: interface conversion: interface {} is []interface {}, not string"]),
        ("listen: a", ['t.conf:1:0: could not parse address string "a"']),
        ('listen: "a:b"', ['t.conf:1:0: could not parse port "b"']),
        ('listen: "a:b:1"', ['t.conf:1:0: could not parse address string "a:b:1"']),
        ("http: true", ["t.conf:1:0: expected port or host:port, got bool"]),
        ('server_name: "a b"', ["t.conf:1:0: server name cannot contain spaces"]),
        ("max_payload: 3G", ["t.conf:1:0: max_payload value is too big"]),
        ("max_sub_tokens: 256", ["t.conf:1:0: max_sub_tokens value is too big"]),
        ("max_sub_tokens: 0", ["t.conf:1:0: max_sub_tokens value can not be negative"]),
        ('ping_interval: "x"', ['t.conf:1:0: error parsing ping_interval: time: invalid duration "x"']),
        ('lame_duck_duration: "1s"', ["t.conf:1:0: invalid lame_duck_duration of 1s, minimum is 30 seconds"]),
        ('lame_duck_grace_period: "-1s"', ["t.conf:1:0: invalid lame_duck_grace_period, needs to be positive"]),
        ("write_timeout: x", ["t.conf:1:0: write_timeout must be 'default', 'close' or 'retry'"]),
        ("system_account: 5", ["t.conf:1:0: system account name must be a string"]),
        ("server_metadata: 5", ["t.conf:1:0: error parsing metadata: unsupported type int64"]),
        ("trusted_keys: OX", ['t.conf:1:0: trust key "OX" required to be a valid public operator nkey']),
        ('store_dir: a\njetstream { store_dir: b }', ["t.conf:1:0: Duplicate 'store_dir' configuration"]),
        ("resolver { type: full }", ["t.conf:1:0: dir has no value and needs to point to a directory"]),
        ("resolver { type: cache, dir: x, allow_delete: true }", ["t.conf:1:0: CACHE does not accept allow_delete"]),
        ('resolver { type: cache, dir: x, ttl: "-1h" }', ["t.conf:1:0: ttl of a resolver is negative"]),
        ('resolver { type: full, dir: x, timeout: "-1s" }', ["t.conf:1:0: timeout of a resolver is negative"]),
        ('resolver { type: full, dir: x, interval: "-1s" }', ["t.conf:1:0: interval of a resolver is negative"]),
        ("proxies { trusted: [{key: x}] }", ['t.conf:1:21: invalid proxy key "x"']),
        ("jetstream { max_mem: 1Z }", ['t.conf:1:12: max_mem_store sizes defined as strings must end in K, M, G, T']),
        ("jetstream { max_concurrent_io: 1 }", [
            't.conf:1:12: Expected an absolute size for "max_concurrent_io" between 4 and 8192, got 1'
        ]),
        ("jetstream { meta_compact: true }", [
            't.conf:1:12: Expected an absolute size for "meta_compact", got True'
        ]),
    ],
)  # fmt: skip
def test_errors(text: str, expected: list[str]) -> None:
    assert errors(text) == expected


def test_all_errors_come_at_once_and_the_first_is_the_place() -> None:
    with pytest.raises(ConfigErrors) as caught:
        loaded("port: x\nfoo: 1\nping_interval: 5\nwebsocket { bar: 2 }")
    assert [error.line for error in caught.value.errors] == [1, 2, 4]
    assert (caught.value.file, caught.value.line, caught.value.column) == ("t.conf", 1, 0)
    assert str(caught.value).count("\n") == 3  # a warning and three errors
    assert str(caught.value).startswith('t.conf:3:1: invalid use of field "ping_interval"')


def test_a_flood_of_errors_is_bounded() -> None:
    text = "\n".join(f"foo{number}: 1" for number in range(10_000))
    assert len(errors(text)) == 100


def test_warnings() -> None:
    result = loaded("ping_interval: 5")
    assert result.options.ping_interval_ns == 5 * SECOND_NS
    assert [str(warning) for warning in result.warnings] == [
        't.conf:1:0: invalid use of field "ping_interval": ping_interval should be converted to a duration'
    ]
    assert [str(warning) for warning in loaded("").warnings] == ["t.conf: config has no values or is empty"]


def test_variables_are_not_unknown_fields() -> None:
    assert options("p: 5\nport: $p").port == 5


def test_flags_override_the_file() -> None:
    got = options("port: 1\njetstream { domain: d }", port=2, jetstream__enabled=True, jetstream__store_dir="x")
    assert (got.port, got.jetstream.domain, got.jetstream.enabled, got.jetstream.store_dir) == (2, "d", True, "x")
    assert load(None, overrides={"authorization.user": "u"}).options.authorization.user == "u"


def test_authentication_waits_longer_with_tls() -> None:
    assert options("tls { }").authorization.timeout_ns == 3 * SECOND_NS
    assert options("tls { timeout: 5 }").authorization.timeout_ns == 6 * SECOND_NS
    assert options("tls { }\nauthorization { timeout: 0.5 }").authorization.timeout_ns == SECOND_NS // 2
    assert options("leafnodes { port: -1, tls { } }").leafnodes.auth_timeout_ns == 3 * SECOND_NS


def test_listeners_get_the_default_host_when_they_are_on() -> None:
    got = options("websocket { port: 80, no_tls: true }\nleafnodes { }\nmqtt { listen: 1883 }")
    assert (got.websocket.host, got.leafnodes.host, got.mqtt.host) == ("0.0.0.0", "", "0.0.0.0")


def test_where_it_came_from() -> None:
    got = options("port: 1\n jetstream: true")
    assert got.config_file == "t.conf"
    assert got.config_digest.startswith("sha256:")
    assert (got.positions["jetstream"].line, got.positions["jetstream"].column) == (2, 2)
    assert got == options("jetstream: true, port: 1")  # places and digests are not compared
