"""What a start says about settings that are doubtful, or that do nothing here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from slipstream.config.listener_options import TLSOptions
from slipstream.config.options import Options
from slipstream.config.record import Record, replace
from slipstream.server.process.notices import IDLE, _changed, _plain, idle_keys, notices
from slipstream.server.server import Server
from slipstream.units import MIB
from support.config_loading import options
from tlsfiles import Authority


class Lines:
    """A log that keeps its lines."""

    debug = trace = False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, level: str, text: str) -> None:
        self.lines.append(f"{level} {text}")

    def reopen(self) -> None: ...
    def close(self) -> None: ...


def test_nothing_to_say() -> None:
    assert notices(Options()) == []
    assert (
        notices(options("port: 4222, jetstream: true, websocket { port: 80, no_tls: true }, accounts { A {} }")) == []
    )
    off = "ocsp: false, ocsp_cache: false, tls { ocsp_peer: false }, jetstream { enabled: false, store_dir: a }"
    assert notices(options(off)) == []


IDLE_TEXTS = {
    "connect_error_reports": "connect_error_reports: 1",
    "reconnect_error_reports": "reconnect_error_reports: 2",
    "prof_block_rate": "prof_block_rate: 5",
    "resolver": "resolver: MEMORY",
    "leafnodes.no_advertise": "leafnodes { port: 7422, no_advertise: true }",
    "resolver_preload": "resolver_preload { A: a.b.c }",
    "resolver_pinned_accounts": "resolver_pinned_accounts: [A]",
    "resolver_tls": "resolver_tls { insecure: true }",
    "ocsp_cache": "ocsp_cache: true",
    "jetstream.unique_tag": "jetstream { unique_tag: az }",
    "jetstream.extension_hint": "jetstream { extension_hint: will_extend }",
    "jetstream.max_outstanding_catchup": "jetstream { max_outstanding_catchup: 1M }",
    "jetstream.meta_compact": "jetstream { meta_compact: 10 }",
    "jetstream.meta_compact_size": "jetstream { meta_compact_size: 10 }",
    "jetstream.meta_compact_sync": "jetstream { meta_compact_sync: true }",
    "jetstream.limits.max_ha_assets": "jetstream { limits { max_ha_assets: 10 } }",
    "websocket.advertise": 'websocket { port: 80, advertise: "a:1" }',
    "accounts.nkey": "accounts { A { nkey: ABJHLOVMPA4CI6R5KLNGOB4GSLNIY7IOUPAJC4YFNDLQVIOBYQGUWVLA } }",
    "accounts.jetstream.cluster_traffic": "accounts { A { jetstream { cluster_traffic: owner } } }",
    "gateway.tls.ocsp_peer": "gateway { tls { ocsp_peer { warn_only: true } } }",
    "gateway.tls.handshake_first_fallback_ns": "gateway { tls { handshake_first: auto } }",
    "mqtt": "mqtt { ack_wait: 10s }",
    "tls.ocsp_peer": "tls { ocsp_peer { warn_only: true } }",
    "websocket.tls.ocsp_peer": "websocket { port: 80, tls { ocsp_peer { warn_only: true } } }",
    "cluster.tls.ocsp_peer": "cluster { tls { ocsp_peer { warn_only: true } } }",
    "cluster.tls.handshake_first_fallback_ns": "cluster { tls { handshake_first: auto } }",
    "websocket.tls.handshake_first_fallback_ns": "websocket { port: 80, tls { handshake_first: auto } }",
}
_CLUSTER = {
    "host": "host: a", "port": "", "routes": "", "user": "authorization { user: u, password: p }",
    "password": "authorization { user: u, password: p }", "auth_timeout_ns": "authorization { timeout: 3 }",
    "permissions": "permissions { import: a }", "tls": "tls { insecure: true }", "advertise": "advertise: a",
    "no_advertise": "no_advertise: true", "connect_retries": "connect_retries: 2",
    "connect_backoff": "connect_backoff: true", "pool_size": "pool_size: 7", "accounts": "accounts: [A]",
    "compression": "compression: s2_best", "ping_interval_ns": "ping_interval: 3s", "ping_max": "ping_max: 9",
    "write_deadline_ns": "write_deadline: 3s", "write_timeout": "write_timeout: close",
}  # fmt: skip
_TLS = {
    "insecure": "insecure: true", "cert_match_by": "cert_match_by: a", "cert_match": "cert_match: a",
    "cert_match_skip_invalid": "cert_match_skip_invalid: true", "ca_certs_match": "ca_certs_match: a",
    "timeout_ns": "timeout: 9", "handshake_first": "handshake_first: true",
    "connection_rate_limit": "connection_rate_limit: 9",
}  # fmt: skip


def _text(row: str) -> str:
    block, _, field = row.rpartition(".")
    if row in IDLE_TEXTS:
        return IDLE_TEXTS[row]
    if block == "cluster":
        return f"cluster {{ {_CLUSTER[field]} }}"
    texts = {"tls": "tls {{ {} }}", "websocket.tls": "websocket {{ port: 80, tls {{ {} }} }}"}
    texts |= {block: block.removesuffix(".tls") + " {{ tls {{ {} }} }}" for block in ("cluster.tls", "gateway.tls")}
    return texts[block].format(_TLS[field])


# Those with a port or routes are refused as a whole.
@pytest.mark.parametrize("row", sorted(IDLE - {"cluster.port", "cluster.routes"}))
def test_every_setting_without_effect_is_named(row: str) -> None:
    found = idle_keys(options(_text(row)))
    assert any(f"{name}.".startswith(f"{row.removesuffix('_ns')}.") for name in found)
    [(level, text)] = [notice for notice in notices(options(_text(row))) if "Without effect" in notice[1]]
    assert level == "WRN"
    assert text == f"Without effect on a server that is alone: {', '.join(found)}"


def test_a_listener_without_a_port_is_named() -> None:
    assert idle_keys(options("websocket { no_tls: true, compression: true }")) == [
        "websocket.no_tls",
        "websocket.compression",
    ]
    assert idle_keys(options("websocket { port: 80, no_tls: true, compression: true }")) == []


@pytest.mark.parametrize(
    "key",
    [
        "password: $2a$11$W2zko751KUvVy59mUTWmpOdWjpEm5qhcCZRd05GjI/sSOT.xtiHyG",
        "nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
    ],
)
def test_keys_and_hashes_are_fine(key: str) -> None:
    name, _, value = key.partition(": ")
    user = {name: value} if name == "nkey" else {"user": "a", name: value}
    text = ", ".join(f'{field}: "{given}"' for field, given in user.items())
    assert notices(options(f"authorization {{ users: [{{{text}}}] }}")) == []


def test_users_by_certificate_need_no_password() -> None:
    tls = "tls { verify_and_map: true }"
    assert notices(options(f"authorization {{ users: [{{user: a}}] }}, {tls}")) == []
    assert len(notices(options(f"authorization {{ users: [{{user: a, password: b}}] }}, {tls}"))) == 1


async def test_a_reload_says_what_is_new() -> None:
    log = Lines()
    first = replace(options("authorization { user: a, password: b }"), port=-1)
    async with Server(first, log=log) as server:
        said = [line for line in log.lines if line.startswith("WRN")]
        assert said == ["WRN Plaintext passwords detected, use nkeys or bcrypt"]
        server.reload(replace(server.options, max_payload=9 * MIB))
        assert [line for line in log.lines if line.startswith("WRN")][1:] == [
            "WRN Maximum payloads over 8.00 MB are generally discouraged and could lead to poor performance"
        ]


@pytest.mark.parametrize("kind", sorted(Record.__subclasses__(), key=lambda kind: kind.__name__))
def test_blocks_with_fields_that_need_a_value_are_looked_at(kind: type[Record]) -> None:
    block = kind(**{name: "x" for name in kind.__match_args__ if name not in kind._defaults})
    assert [*_changed(block, _plain(block), "")] == []


def test_traces_of_an_account_have_nothing_to_say() -> None:
    account = "users: [{nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4}]"
    assert notices(options(f'accounts {{ A {{ {account}, msg_trace: {{ dest: "traces", sampling: 50 }} }} }}')) == []


def test_a_certificate_that_asks_for_staples(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    plain = authority.issue("localhost")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "staple")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(7).not_valid_before(now).not_valid_after(now + timedelta(hours=1))
    feature = x509.TLSFeature([x509.TLSFeatureType.status_request])
    stapling = tmp_path / "stapling.crt"
    stapling.write_bytes(builder.add_extension(feature, critical=False).sign(key, SHA256()).public_bytes(Encoding.PEM))
    for path, warns in ((plain.cert_file, False), (stapling, True), (tmp_path / "missing", False)):
        found = notices(Options(tls=TLSOptions(cert_file=str(path))))
        assert any("asks for OCSP stapling" in text for _, text in found) is warns
