"""TLS in memory: handshakes with OpenSSL's own client, facts, failures, cuts."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import pytest

from slipstream.config.listener_options import TLSCertificateOptions, TLSOptions
from slipstream.server.sockets.tls import TlsContext
from slipstream.server.sockets.tls_layer import TlsFailed, TlsLayer
from tlsfiles import Authority, Pair


class Client:
    """The other side, also in memory."""

    def __init__(self, context: ssl.SSLContext, name: str = "localhost") -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
        self.is_open = False

    def step(self) -> bytes:
        """Goes on with the handshake; returns what it sends."""
        try:
            self.tls.do_handshake()
            self.is_open = True
        except ssl.SSLWantReadError:
            pass
        return self.outgoing.read()

    def encrypt(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self.outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        self.incoming.write(data)
        out = b""
        try:
            while True:
                out += self.tls.read(65536)
        except ssl.SSLWantReadError:
            return out


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("localhost")


@pytest.fixture(scope="module")
def me(authority: Authority) -> Pair:
    return authority.issue("me@example.com", "me.example.com", name="me", common_name="me")


@pytest.fixture
def server(pair: Pair) -> Callable[..., TlsContext]:
    def build(**changes: object) -> TlsContext:
        return TlsContext.for_server(
            TLSOptions(cert_file=str(pair.cert_file), key_file=str(pair.key_file), **changes)  # type: ignore[arg-type]
        )

    return build


def shake_hands(layer: TlsLayer, client: Client, *, size: int = 0) -> None:
    """Runs both sides until they are done, with pieces of `size` bytes."""
    for _ in range(10):
        data = client.step()
        step = size or max(1, len(data))
        for start in range(0, len(data), step):
            layer.receive(data[start : start + step])
            if not layer.is_open:
                layer.shake_hands()
        client.incoming.write(layer.data_to_send())
        if layer.is_open and client.is_open:
            return
    raise AssertionError("no end of the handshake")


def read(layer: TlsLayer) -> bytes:
    out = b""
    buffer = bytearray(1000)
    while count := layer.read_into(buffer):
        out += buffer[:count]
    return out


@pytest.mark.parametrize("size", [0, 1, 100])
def test_handshake_and_bytes_both_ways(server: Callable[..., TlsContext], authority: Authority, size: int) -> None:
    layer, client = TlsLayer(server()), Client(authority.client_context())
    shake_hands(layer, client, size=size)
    data = bytes(range(256)) * 500
    layer.receive(client.encrypt(data))
    assert read(layer) == data
    assert client.decrypt(layer.encrypt([data[:100], b"", data[100:]])) == data


def test_bytes_that_come_with_the_end_of_the_handshake(server: Callable[..., TlsContext], authority: Authority) -> None:
    layer, client = TlsLayer(server()), Client(authority.client_context())
    layer.receive(client.step())
    assert not layer.shake_hands()
    client.incoming.write(layer.data_to_send())
    finished = client.step()
    layer.receive(finished + client.encrypt(b"CONNECT {}\r\n"))
    assert layer.shake_hands()
    assert read(layer) == b"CONNECT {}\r\n"


@pytest.mark.parametrize(
    ("version", "suite", "go_name"),
    [
        (ssl.TLSVersion.TLSv1_3, "", "TLS_AES_256_GCM_SHA384"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    ],
)
def test_facts(
    server: Callable[..., TlsContext], authority: Authority, version: ssl.TLSVersion, suite: str, go_name: str
) -> None:
    context = authority.client_context()
    context.minimum_version = context.maximum_version = version
    if suite:
        context.set_ciphers(suite)
    layer, client = TlsLayer(server()), Client(context)
    shake_hands(layer, client)
    facts = layer.facts()
    assert facts.version == {ssl.TLSVersion.TLSv1_2: "1.2", ssl.TLSVersion.TLSv1_3: "1.3"}[version]
    assert facts.cipher_suite == go_name
    assert (facts.chain, facts.certificate) == ((), None)


def test_certificate_of_the_client(server: Callable[..., TlsContext], authority: Authority, me: Pair) -> None:
    layer = TlsLayer(server(verify=True, ca_file=str(authority.ca_file)))
    shake_hands(layer, Client(authority.client_context(me)))
    facts = layer.facts()
    assert facts.certificate is not None
    assert facts.certificate.emails == ("me@example.com",)
    assert facts.certificate.dns_names == ("me.example.com",)
    assert facts.chain[0].subject.startswith("CN=me,")
    assert facts.chain[0].dns_names == ("me.example.com",)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_missing_and_foreign_certificates(
    server: Callable[..., TlsContext],
    authority: Authority,
    version: ssl.TLSVersion,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    context = server(verify=True, ca_file=str(authority.ca_file))
    anonymous = authority.client_context()
    anonymous.maximum_version = version
    with pytest.raises(TlsFailed, match=r"^tls: client didn't provide a certificate$"):
        shake_hands(TlsLayer(context), Client(anonymous))
    stranger = Authority(tmp_path_factory.mktemp("other"), "other").issue("me", name="stranger")
    foreign = authority.client_context(stranger)
    foreign.maximum_version = version
    with pytest.raises(TlsFailed, match=r"^tls: failed to verify certificate: ."):
        shake_hands(TlsLayer(context), Client(foreign))


def test_listeners_trust_their_own_authority_only(
    server: Callable[..., TlsContext], authority: Authority, me: Pair, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A session of one listener is no way into another (CVE-2025-68121)."""
    other = Authority(tmp_path_factory.mktemp("other"), "other")
    context = authority.client_context(me)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    first = Client(context)
    shake_hands(TlsLayer(server(verify=True, ca_file=str(authority.ca_file))), first)
    second = Client(context)
    second.tls.session = first.tls.session
    with pytest.raises(TlsFailed, match="failed to verify certificate"):
        shake_hands(TlsLayer(server(verify=True, ca_file=str(other.ca_file))), second)


def test_pinned_keys(server: Callable[..., TlsContext], authority: Authority, me: Pair) -> None:
    layer = TlsLayer(server(verify=True, ca_file=str(authority.ca_file)))
    shake_hands(layer, Client(authority.client_context(me)))
    key = layer.facts().chain[0].key_sha256
    pinned = server(verify=True, ca_file=str(authority.ca_file), pinned_certs=frozenset({key}))
    shake_hands(TlsLayer(pinned), Client(authority.client_context(me)))
    other = server(verify=True, ca_file=str(authority.ca_file), pinned_certs=frozenset({"0" * 64}))
    with pytest.raises(TlsFailed, match=r"^certificate not pinned$"):
        shake_hands(TlsLayer(other), Client(authority.client_context(me)))
    unverified = server(pinned_certs=frozenset({key}))
    with pytest.raises(TlsFailed, match=r"^certificate not pinned$"):
        shake_hands(TlsLayer(unverified), Client(authority.client_context()))


def test_old_versions_and_foreign_suites(server: Callable[..., TlsContext], authority: Authority) -> None:
    context = authority.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(TlsFailed, match=r"^tls: client offered only unsupported versions$"):
        shake_hands(TlsLayer(server(min_version="1.3")), Client(context))
    context.set_ciphers("DHE-RSA-AES256-GCM-SHA384")
    layer = TlsLayer(server())
    with pytest.raises(TlsFailed, match=r"^tls: no cipher suite supported by both client and server$"):
        shake_hands(layer, Client(context))
    assert layer.data_to_send()[0] == 0x15, "an alert tells the client"


def test_client_that_does_not_trust_us(server: Callable[..., TlsContext]) -> None:
    layer, client = TlsLayer(server()), Client(ssl.create_default_context())
    layer.receive(client.step())
    assert not layer.shake_hands()
    client.incoming.write(layer.data_to_send())
    with pytest.raises(ssl.SSLCertVerificationError):
        client.tls.do_handshake()
    layer.receive(client.outgoing.read())
    with pytest.raises(TlsFailed, match=r"^(remote error: )?tls: .+$"):
        layer.shake_hands()


@pytest.mark.parametrize("data", [b"CONNECT {}\r\n", b"GET / HTTP/1.1\r\n", b"\x80\x2e\x01"])
def test_probes_are_told_from_clients(server: Callable[..., TlsContext], data: bytes) -> None:
    with pytest.raises(TlsFailed) as caught:
        TlsLayer(server()).receive(data)
    assert caught.value.is_probe
    assert caught.value.text == "tls: first record does not look like a TLS handshake"


def test_garbage_that_begins_like_tls(server: Callable[..., TlsContext]) -> None:
    layer = TlsLayer(server())
    layer.receive(b"\x16\x03\x01\x00\x05xxxxx")
    with pytest.raises(TlsFailed) as caught:
        layer.shake_hands()
    assert not caught.value.is_probe


def test_garbage_later(server: Callable[..., TlsContext], authority: Authority) -> None:
    layer, client = TlsLayer(server()), Client(authority.client_context())
    shake_hands(layer, client)
    layer.receive(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(TlsFailed):
        layer.read_into(bytearray(100))


def test_goodbye_both_ways(server: Callable[..., TlsContext], authority: Authority) -> None:
    layer, client = TlsLayer(server()), Client(authority.client_context())
    shake_hands(layer, client)
    client.incoming.write(layer.close())
    assert client.tls.read(1) == b"", "the end, not a wait for more"
    assert layer.close() == b""

    layer, client = TlsLayer(server()), Client(authority.client_context())
    shake_hands(layer, client)
    last = client.encrypt(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    layer.receive(last + client.outgoing.read())
    buffer = bytearray(100)
    assert layer.read_into(buffer) == 4
    with pytest.raises(EOFError):
        layer.read_into(buffer)


def test_goodbye_before_the_handshake_says_nothing(server: Callable[..., TlsContext]) -> None:
    assert TlsLayer(server()).close() == b""


def test_certificate_by_server_name(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Authority(tmp_path_factory.mktemp("other"), "other")
    pairs = [authority.issue("one.example.com", name="one"), other.issue("*.two.example.com", name="two")]
    context = TlsContext.for_server(
        TLSOptions(certs=tuple(TLSCertificateOptions(str(p.cert_file), str(p.key_file)) for p in pairs))
    )
    shake_hands(TlsLayer(context), Client(authority.client_context(), "one.example.com"))
    shake_hands(TlsLayer(context), Client(other.client_context(), "A.two.example.com"))
    unknown = authority.client_context()
    unknown.check_hostname = False
    shake_hands(TlsLayer(context), Client(unknown, "elsewhere"))


@pytest.mark.parametrize("step", [1, 2, 5, 100])
def test_the_first_record_may_come_in_pieces(
    server: Callable[..., TlsContext], authority: Authority, step: int
) -> None:
    layer, client = TlsLayer(server()), Client(authority.client_context())
    hello = client.step()
    for at in range(0, len(hello), step):
        assert layer.data_to_send() == b"", "nobody answers half a hello"
        layer.receive(hello[at : at + step])
        assert not layer.shake_hands()
    assert layer.data_to_send()


def test_a_first_record_that_announces_too_much_is_refused_at_once(server: Callable[..., TlsContext]) -> None:
    layer = TlsLayer(server())
    layer.receive(b"\x16\x03\x01\xff\xff" + b"x" * 10)
    with pytest.raises(TlsFailed):
        layer.shake_hands()
