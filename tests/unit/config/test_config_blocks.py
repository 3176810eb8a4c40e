"""TLS, WebSocket, leaf nodes, JetStream, and the blocks that are read but not yet served."""

from __future__ import annotations

import pytest

from slipstream.config import (
    CompressionOptions,
    JetStreamBatchLimitsOptions,
    LeafProxyOptions,
    LeafRemoteOptions,
    LeafUserOptions,
    RemoteGatewayOptions,
    TLSCertificateOptions,
    TLSOptions,
)
from slipstream.config.load import Probes
from slipstream.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS
from support.config_loading import errors, loaded, options

SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"


class TestTLS:
    def test_all_keys(self) -> None:
        tls = options(
            """tls {
                cert_file: c, key_file: k, ca_file: a, verify_and_map: true, timeout: "1s", min_version: "1.3"
                cipher_suites: [TLS_AES_128_GCM_SHA256], curve_preferences: [X25519]
                pinned_certs: ["%s"], connection_rate_limit: 5, handshake_first: auto
            }"""
            % ("AB" * 32)
        ).tls
        assert tls == TLSOptions(
            cert_file="c",
            key_file="k",
            ca_file="a",
            verify=True,
            verify_and_map=True,
            timeout_ns=SECOND_NS,
            min_version="1.3",
            cipher_suites=("TLS_AES_128_GCM_SHA256",),
            curve_preferences=("X25519",),
            pinned_certs=frozenset({"ab" * 32}),
            connection_rate_limit=5,
            handshake_first=True,
            handshake_first_fallback_ns=50 * MILLISECOND_NS,
        )

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("true", (True, 0)),
            ("off", (False, 0)),
            ('"on"', (True, 0)),
            ("auto_fallback", (True, 50 * MILLISECOND_NS)),
            ('"2s"', (True, 2 * SECOND_NS)),
        ],
    )
    def test_handshake_first(self, text: str, expected: tuple[bool, int]) -> None:
        tls = options(f"tls {{ first: {text} }}").tls
        assert tls is not None
        assert (tls.handshake_first, tls.handshake_first_fallback_ns) == expected

    def test_several_certificates(self) -> None:
        tls = options("tls { certs: [{cert_file: a, key_file: b}] }").tls
        assert tls is not None
        assert tls.certs == (TLSCertificateOptions("a", "b"),)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("foo: 1", '1:6: error parsing tls config, unknown field "foo"'),
            ("verify: 1", "1:6: error parsing tls config, expected 'verify' to be a boolean"),
            ("cert_file: 1", "1:6: error parsing tls config, expected 'cert_file' to be filename"),
            ("cert_file: a", "1:0: missing 'key_file' in TLS configuration"),
            ("key_file: a", "1:0: missing 'cert_file' in TLS configuration"),
            ("cipher_suites: []", "1:6: error parsing tls config, 'cipher_suites' cannot be empty"),
            ("cipher_suites: [FOO]", "1:22: unrecognized cipher FOO"),
            ("curve_preferences: [FOO]", "1:26: unrecognized curve preference FOO"),
            (
                "cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]",
                "1:0: insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: "
                "TLS_RSA_WITH_RC4_128_SHA",
            ),
            ("timeout: []", "1:6: error parsing tls config, 'timeout' wrong type"),
            ("connection_rate_limit: true", "1:6: error parsing tls config, 'connection_rate_limit' wrong type"),
            (
                "pinned_certs: [aa]",
                "1:21: error parsing tls config, 'pinned_certs' key aa does not look like hex-encoded sha256 of DER "
                "encoded SubjectPublicKeyInfo",
            ),
            ("handshake_first: x", '1:6: field "handshake_first"\'s value "x" is invalid'),
            ("min_version: 1.2", "1:6: error parsing tls config: 'min_version' wrong type: 1.2"),
            ('min_version: "1.1"', "1:6: error parsing tls config: unsupported TLS version: TLS 1.1"),
            (
                "certs: [{cert_file: a}]",
                "1:15: error parsing certificates config: both 'cert_file' and 'cert_key' options are required",
            ),
            (
                "cert_file: a, key_file: b, certs: [{cert_file: a, key_file: b}]",
                "1:0: error parsing tls config, cannot combine 'cert_file' option with 'certs' option",
            ),
            (
                "verify_cert_and_check_known_urls: true",
                "1:6: verify_cert_and_check_known_urls not supported in this context",
            ),
            ("cert_store: x", "1:0: certificate store type not implemented: OS must be Windows"),
        ],
    )
    def test_errors(self, text: str, expected: str) -> None:
        assert errors(f"tls {{ {text} }}") == [f"t.conf:{expected}"]

    def test_files_are_asked_for(self) -> None:
        asked: list[str] = []

        def check(tls: TLSOptions) -> str | None:
            asked.append(tls.cert_file)
            return "no such file" if tls.cert_file == "bad" else None

        probes = Probes(check_tls=check)
        loaded("websocket { port: 1, tls { cert_file: good, key_file: k } }", probes)
        assert errors("tls { cert_file: bad, key_file: k }", probes) == ["t.conf:1:0: no such file"]
        assert asked == ["good", "bad"]


class TestWebsocket:
    def test_all_keys(self) -> None:
        got = options(
            """ws { listen: "h:80", no_tls: true, origins: a, handshake_timeout: 3, compress: true
                authorization { user: u, pass: p, timeout: 1.5 }, jwt_cookie: j, headers { A: b }
                ping_interval: "9s" }"""
        ).websocket
        assert (got.host, got.port, got.no_tls, got.allowed_origins) == ("h", 80, True, ("a",))
        assert (got.handshake_timeout_ns, got.compression) == (3 * SECOND_NS, True)
        assert (got.user, got.password, got.auth_timeout_ns) == ("u", "p", 1_500_000_000)
        assert (got.jwt_cookie, got.headers, got.ping_interval_ns) == ("j", {"A": "b"}, 9 * SECOND_NS)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("websocket: 5", "1:0: Expected websocket to be a map, got int64"),
            ("websocket { handshake_timeout: 1.5 }", "1:12: error parsing handshake timeout: unsupported type float64"),
            ("websocket { headers { A: 1 } }", "1:22: error parsing header key A: unsupported type int64"),
            ("websocket { origins: [1 ] }", "1:22: error parsing allowed origins: unsupported type in array int64"),
        ],
    )
    def test_errors(self, text: str, expected: str) -> None:
        assert errors(text) == [f"t.conf:{expected}"]


class TestLeafnodes:
    def test_listener(self) -> None:
        got = options(
            """leafnodes { listen: "127.0.0.1:-1", reconnect: "5s", compression: on, min_version: 2.9.1
                authorization { users: [{user: a, password: b, account: A}] } }"""
        ).leafnodes
        assert (got.host, got.port, got.reconnect_ns) == ("127.0.0.1", -1, 5 * SECOND_NS)
        assert got.users == (LeafUserOptions("a", "b", "A"),)
        assert (got.compression, got.min_version) == (CompressionOptions("s2_auto"), "2.9.1")

    def test_remotes(self) -> None:
        got = options(
            f"""leaf {{ remotes: [
                {{url: "nats://u:p@a", account: A, nkey: {SEED}, deny_imports: x
                  js_cluster_migrate: {{leader_migrate_delay: "3s"}}}}
                {{urls: ["ws://b:1"], proxy {{url: "http://p:1", timeout: "1s"}}
                  compression {{mode: s2_auto, rtts: ["1ms"]}}}}
            ] }}"""
        ).leafnodes.remotes
        assert got == (
            LeafRemoteOptions(
                urls=("nats://u:p@a",),
                account="A",
                nkey=SEED,
                deny_imports=("x",),
                jetstream_cluster_migrate=True,
                leader_migrate_delay_ns=3 * SECOND_NS,
            ),
            LeafRemoteOptions(
                urls=("ws://b:1",),
                proxy=LeafProxyOptions("http://p:1", timeout_ns=SECOND_NS),
                compression=CompressionOptions("s2_auto", (MILLISECOND_NS,)),
            ),
        )

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "authorization { user: a, users: [{user: b}] }",
                "1:12: can not have a single user/pass and a users array",
            ),
            (
                "authorization { users: [{user: b}, {user: b}] }",
                '1:12: duplicate user "b" detected in leafnode authorization',
            ),
            ("authorization { nkey: x }", "1:28: Not a valid public nkey for leafnode authorization"),
            ("min_version: 2.7.0", "1:12: the minimum version should be at least 2.8.0"),
            ("min_version: x", "1:12: invalid leafnode's minimum version: invalid semver"),
            ("compression: 5", '1:12: field "compression" should be a boolean or a structure, got int64'),
            ("remotes: 5", "1:12: Expected remotes field to be an array, got int64"),
            ('remotes: [{url: "nats://a:x"}]', '1:23: error parsing leafnode url ["nats://a:x"]'),
            ("remotes: [{nkey: SUx}]", "1:23: Remote leafnode nkey is not a valid seed"),
            (
                "remotes: [{url: a, proxy {url: b}}]",
                "1:31: proxy URL scheme must be http or https, got: ",
            ),
            (
                'remotes: [{url: "nats://u:pw@a"}, {url: "nats://u:pw@a"}]',
                '1:47: duplicate remote urls=["nats://u:xxxxx@a"], account="$G"',
            ),
        ],
    )
    def test_errors(self, text: str, expected: str) -> None:
        assert errors(f"leafnodes {{ {text} }}") == [f"t.conf:{expected}"]

    def test_a_wrong_seed_is_not_repeated(self) -> None:
        wrong = SEED[:-1] + "7"
        assert wrong not in errors(f"leafnodes {{ remotes: [{{nkey: {wrong}}}] }}")[0]


class TestJetStream:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [("true", True), ("enabled", True), ("Disable", False), ("{}", True), ("{enabled: no}", False)],
    )
    def test_on_and_off(self, text: str, expected: bool) -> None:
        assert options(f"jetstream: {text}").jetstream.enabled is expected

    def test_all_keys(self) -> None:
        got = options(
            """jetstream { store: d, max_mem: 5, max_file: "1K", domain: x, ek: secret, cipher: AES, strict: false
                limits { max_ack_pending: 1, duplicate_window: "1m", batch { max_msgs: 2, timeout: "1s" } }
                max_buffered_size: "1M", request_queue_limit: 7, unique_tag: " AZ: " }"""
        ).jetstream
        assert (got.store_dir, got.max_memory_store, got.max_file_store) == ("d", 5, 1024)
        assert (got.domain, got.key, got.cipher, got.strict) == ("x", "secret", "aes", False)
        assert (got.limits.max_ack_pending, got.limits.duplicate_window_ns) == (1, MINUTE_NS)
        assert got.limits.batch == JetStreamBatchLimitsOptions(max_msgs=2, timeout_ns=SECOND_NS)
        assert (got.max_buffered_size, got.request_queue_limit, got.info_queue_limit) == (1 << 20, 7, 7)
        assert got.unique_tag == "az:"

    def test_sync(self) -> None:
        """Safe by default; an explicit interval is honoured."""
        assert options("jetstream {}").jetstream.sync_always
        assert options("jetstream { sync: always }").jetstream.sync_always
        got = options('jetstream { sync_interval: "10s" }').jetstream
        assert (got.sync_always, got.sync_interval_ns) == (False, 10 * SECOND_NS)


class TestOtherServers:
    def test_cluster(self) -> None:
        result = loaded(
            """cluster { name: c, listen: 6222, routes: ["nats://a", "nats://a"], authorization { user: u, password: p }
                permissions { import: x, export: {deny: y} }, ping_interval: "1m", accounts: [A] }"""
        )
        got = result.options.cluster
        assert (got.name, got.port, got.routes, got.user, got.pool_size) == ("c", 6222, ("nats://a",), "u", 3)
        assert got.permissions is not None and got.permissions.publish is not None
        assert got.permissions.publish.allow == ("x",)
        assert [str(warning).split(": ", 1)[1] for warning in result.warnings] == [
            'invalid use of field "nats://a": Duplicate route entry detected',
            "Cluster 'ping_interval' will reset to 30s which is the max for routes",
        ]

    def test_gateway_and_mqtt(self) -> None:
        got = options(
            'gateway { name: A, port: 7222, gateways: [{name: B, url: "nats://b"}] }\n'
            'mqtt { port: 1883, ack_wait: "1m", max_inflight: 5 }'
        )
        assert got.gateway.gateways == (RemoteGatewayOptions("B", ("nats://b",)),)
        assert (got.mqtt.ack_wait_ns, got.mqtt.max_ack_pending, got.mqtt.js_api_timeout_ns) == (
            MINUTE_NS,
            5,
            5 * SECOND_NS,
        )

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('cluster { name: "a b" }', "1:10: cluster name cannot contain spaces"),
            ("cluster { authorization { token: x } }", "1:10: Cluster authorization does not support tokens"),
            (
                "gateway { authorization { users: [{user: a}] } }",
                "1:10: Gateway authorization does not allow multiple users",
            ),
            (
                "cluster { permissions { allow_responses: true } }",
                "1:10: Cluster permissions do not support dynamic responses",
            ),
            ("gateway { gateways: 5 }", "1:10: Expected gateways field to be an array, got int64"),
            ("mqtt { max_ack_pending: 70000 }", "1:7: invalid value 70000, should in [0..65535] range"),
        ],
    )
    def test_errors(self, text: str, expected: str) -> None:
        assert errors(text) == [f"t.conf:{expected}"]


@pytest.mark.parametrize(
    ("remote", "said"),
    [
        ('url: "nats://a", proxy {url: "http://p:1"}', "proxy configuration will be ignored"),
        ('url: "ws://a", proxy {url: "https://p:1"}', "the connection to the proxy itself is not encrypted"),
        ('url: "ws://a", proxy {}', "proxy without a url"),
        ('url: "nats://a", ws_compression: true', "only apply to WebSocket URLs"),
        ('url: "nats://a", ws_no_masking: true', "only apply to WebSocket URLs"),
    ],
)
def test_settings_of_websocket_that_do_nothing_are_warned_about(remote: str, said: str) -> None:
    result = loaded(f"leafnodes {{ remotes: [{{{remote}}}] }}")
    assert [said in str(warning) for warning in result.warnings] == [True]


def test_tls_through_a_proxy_needs_a_tls_block() -> None:
    found = errors('leafnodes { remotes: [{url: "wss://a", proxy {url: "http://p:1"}}] }')
    assert ["remote URL wss://a requires TLS" in text for text in found] == [True]
