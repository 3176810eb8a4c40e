"""Tokens of OpenID issuers, against an issuer that is a process of its own: who comes in, as whom, and for how long."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from models.wsframes import Frame
from support.openid_issuer import Issuer, forged
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.servers import Launcher
from tlsfiles import Authority
from wsclient import WebSocketClient

CONFIG = """
accounts {
  SHOP { users: [{user: shop, password: shop}] }
  OPS {}
  SYS { users: [{user: sys, password: sys}] }
}
system_account: SYS
max_control_line: 65536
authorization {
  timeout: 2
  oidc {
    issuer: "%s"
    audience: [nats, other]
    account: "{{claim(tenant)}}"
    leeway: "0s"
    permissions {
      publish { allow: ["orders.{{claim(sub)}}.>", "{{subjects(nats.pub)}}"], deny: "orders.*.secret" }
      subscribe: ["_INBOX.>", "rooms.{{claim(realm.roles)}}"]
    }
  }
}
"""


def restless(issuer: Issuer) -> str:
    """The same with keys that are fetched every second."""
    return (CONFIG % issuer.url).replace("leeway:", 'refresh: "1s", leeway:')


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as started:
        yield started


@pytest.fixture
def own_issuer() -> Iterator[Issuer]:
    with Issuer() as started:
        yield started


def login(server: ServerProcess, **fields: object) -> RawClient | None:
    """A client that came in, or None."""
    client = RawClient(server.port)
    said = {"verbose": False, "pedantic": False, "headers": True, "protocol": 1} | fields
    client.send(b"CONNECT " + json.dumps(said).encode() + b"\r\nPING\r\n")
    lines, closed = client.read_until_or_close(rb"PONG\r\n")
    if not closed:
        return client
    assert b"-ERR 'Authorization Violation'" in lines
    client.close()
    return None


def comes(server: ServerProcess, **fields: object) -> bool:
    client = login(server, **fields)
    if client is not None:
        client.close()
    return client is not None


def may(client: RawClient, *lines: bytes) -> list[bool]:
    """Which lines are allowed."""
    found = []
    for line in lines:
        client.send(line + b"\r\nPING\r\n")
        found.append(b"Permissions Violation" not in client.read_until(rb"PONG\r\n"))
    return found


def who(client: RawClient) -> dict[str, Any]:
    """How the client is known to itself."""
    client.send(b"SUB _INBOX.me 9\r\nPUB $SYS.REQ.USER.INFO _INBOX.me 0\r\n\r\n")
    answer = client.read_until(rb"MSG _INBOX.me 9 \d+\r\n[^\r]*\r\n")
    return json.loads(answer.split(b"\r\n")[-2])["data"]  # type: ignore[no-any-return]


@pytest.fixture
def server(ours: Launcher, issuer: Issuer) -> ServerProcess:
    return ours(CONFIG % issuer.url)


@pytest.mark.parametrize("field", ["auth_token", "jwt", "pass"])
def test_a_token_lets_in_wherever_it_stands(server: ServerProcess, issuer: Issuer, field: str) -> None:
    assert comes(server, **{field: issuer.token(tenant="SHOP")})
    assert not comes(server, **{field: issuer.token(tenant="SHOP")[:-8] + "AAAAAAAA"})


def test_a_name_has_to_be_that_of_the_token(server: ServerProcess, issuer: Issuer) -> None:
    token = issuer.token(tenant="SHOP")
    assert comes(server, user="ann", **{"pass": token})
    assert not comes(server, user="bob", **{"pass": token})
    # A configured user does not come in by somebody else's token, nor somebody else by the name.
    assert not comes(server, user="shop", **{"pass": token})


@pytest.mark.parametrize("kind", ["RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA"])
def test_every_kind_of_signature(server: ServerProcess, issuer: Issuer, kind: str) -> None:
    assert comes(server, auth_token=issuer.token(key=kind, tenant="SHOP"))


def test_claims_become_account_name_and_permissions(server: ServerProcess, issuer: Issuer) -> None:
    token = issuer.token(
        tenant="SHOP", nats={"pub": ["audit.>", "$SYS.REQ.USER.INFO"]}, realm={"roles": ["red", "blue", "*", "a.b"]}
    )
    client = login(server, auth_token=token)
    assert client is not None
    with client:
        data = who(client)
        assert (data["user"], data["account"]) == ("ann", "SHOP")
        assert 0 < data["expires"] <= 600 * 10**9
        publishes = [b"orders.ann.x", b"orders.ann.secret", b"orders.bob.x", b"audit.x", b"other"]
        assert may(client, *(b"PUB %b 0\r\n" % subject for subject in publishes)) == [True, False, False, True, False]
        subscribes = [b"rooms.red", b"rooms.blue", b"rooms.green", b"rooms.*", b"rooms.a.b", b"_INBOX.x"]
        allowed = may(client, *(b"SUB %b %d" % (name, at) for at, name in enumerate(subscribes)))
        assert allowed == [True, True, False, False, False, True]


REFUSED: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "mail"},
    "no audience": {"aud": None},
    "audience of another type": {"aud": {"nats": True}},
    "another issuer": {"iss": "http://127.0.0.1:1"},
    "expired": {"exp": int(time.time()) - 1},
    "no end": {"exp": None},
    "an end that is no time": {"exp": "tomorrow"},
    "an end beyond all time": {"exp": 10**300},
    "not valid yet": {"nbf": int(time.time()) + 3600},
    "issued tomorrow": {"iat": int(time.time()) + 86_400},
    "no account": {"tenant": None},
    "unknown account": {"tenant": "NOPE"},
    "the system account": {"tenant": "SYS"},
    "accounts": {"tenant": ["SHOP", "OPS"]},
    "no user": {"sub": None},
    "bound to a key": {"cnf": {"jkt": "x"}},
    "a deny entry is not filled": {"sub": "a b"},
}


@pytest.mark.parametrize("claims", REFUSED.values(), ids=REFUSED.keys())
def test_claims_that_do_not_count(ours: Launcher, issuer: Issuer, claims: dict[str, Any]) -> None:
    config = (CONFIG % issuer.url).replace('deny: "orders.*.secret"', 'deny: "orders.{{claim(sub)}}.secret"')
    server = ours(config)
    assert comes(server, auth_token=issuer.token(**{"tenant": "SHOP"} | {"sub": "ann"}))
    assert not comes(server, auth_token=issuer.token(**{"tenant": "SHOP"} | claims))


def test_lists_of_audiences_and_times_with_fractions_count(server: ServerProcess, issuer: Issuer) -> None:
    now = time.time()
    assert comes(server, auth_token=issuer.token(tenant="SHOP", aud=["mail", "other"], exp=now + 5.5, nbf=now - 0.5))


def test_no_header_talks_the_server_into_another_check(server: ServerProcess, issuer: Issuer) -> None:
    now = int(time.time())
    claims = {"iss": issuer.url, "aud": "nats", "sub": "ann", "tenant": "SHOP", "exp": now + 600}
    rsa = next(key for key in issuer.public_keys() if key["kid"].startswith("RS256"))
    public = RSAAlgorithm.from_jwk(rsa)
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[union-attr]
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[union-attr]
    good = issuer.token(tenant="SHOP")
    head, body, signature = good.split(".")
    tokens = [
        *(forged({"alg": name, "kid": rsa["kid"]}, claims) for name in ("none", "None", "NONE", "")),
        forged({"alg": "HS256", "kid": rsa["kid"]}, claims, pem),
        forged({"alg": "HS256", "kid": rsa["kid"]}, claims, der),
        forged({"alg": "HS256", "kid": rsa["kid"]}, claims, rsa["n"].encode()),
        forged({"alg": "HS256", "kid": "shared"}, claims, b"everybody knows it"),
        forged({"alg": "RS256", "kid": "shared"}, claims, b"everybody knows it"),
        # The attacker's own key in the header.
        forged({"alg": "RS256", "jwk": {"kty": "oct", "k": "eA"}, "kid": rsa["kid"]}, claims, b"x"),
        # The right signature, another name of the algorithm or of the key.
        issuer.token(key="RS256", header={"alg": "PS256"}, tenant="SHOP"),
        issuer.token(key="RS256", header={"alg": "RS512"}, tenant="SHOP"),
        issuer.token(key="ES256", header={"alg": "ES384"}, tenant="SHOP"),
        issuer.token(key="RS256", header={"kid": "PS256-1"}, tenant="SHOP"),
        issuer.token(key="RS256", header={"kid": None}, tenant="SHOP"),  # several keys could be meant
        issuer.token(header={"crit": ["exp"]}, tenant="SHOP"),
        issuer.token(header={"b64": False, "crit": ["b64"]}, tenant="SHOP"),
        issuer.token(header={"typ": "logout+jwt"}, tenant="SHOP"),
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{head}.{body}.{signature}.{signature}",
        f"{head}=.{body}.{signature}",
    ]
    for token in tokens:
        assert not comes(server, auth_token=token), token
    assert comes(server, auth_token=issuer.token(key="EdDSA", header={"kid": None, "typ": "at+jwt"}, tenant="SHOP"))


def test_others_come_in_as_before(server: ServerProcess) -> None:
    assert comes(server, user="shop", **{"pass": "shop"})
    assert not comes(server, user="shop", **{"pass": "no"})
    assert not comes(server)
    assert not comes(server, auth_token="secret")
    with RawClient(server.port) as early:
        early.send(b"PING\r\n")
        assert b"-ERR 'Authorization Violation'" in early.read_to_close()


def test_the_end_of_the_token_is_the_end_of_the_connection(server: ServerProcess, issuer: Issuer) -> None:
    client = login(server, auth_token=issuer.token(tenant="SHOP", exp=int(time.time()) + 2))
    assert client is not None
    with client:
        assert b"-ERR 'User Authentication Expired'" in client.read_to_close()


def test_keys_are_rotated(ours: Launcher, own_issuer: Issuer) -> None:
    server = ours.fresh(restless(own_issuer))
    old = own_issuer.token(tenant="SHOP")
    assert comes(server, auth_token=old)
    own_issuer.rotate()
    count = own_issuer.fetches()
    deadline = time.monotonic() + 10
    while own_issuer.fetches() < count + 2:  # the second one was begun after the first had come
        assert time.monotonic() < deadline
    assert comes(server, auth_token=own_issuer.token(tenant="SHOP"))
    assert not comes(server, auth_token=old)


def test_a_new_key_is_fetched_when_a_token_names_it(ours: Launcher, own_issuer: Issuer) -> None:
    server = ours.fresh(CONFIG % own_issuer.url)
    assert comes(server, auth_token=own_issuer.token(tenant="SHOP"))
    own_issuer.rotate()
    new = own_issuer.token(tenant="SHOP")
    deadline = time.monotonic() + 15
    while not comes(server, auth_token=new):  # keys were fetched a moment ago: not again at once
        assert time.monotonic() < deadline


def test_a_flood_of_unknown_keys_does_not_become_one_for_the_issuer(ours: Launcher, own_issuer: Issuer) -> None:
    server = ours.fresh(CONFIG % own_issuer.url)
    good = own_issuer.token(tenant="SHOP")
    assert comes(server, auth_token=good)
    began, before = time.monotonic(), own_issuer.fetches()
    for number in range(200):
        claims = {"iss": own_issuer.url, "aud": "nats", "sub": "ann", "exp": int(time.time()) + 60}
        assert not comes(server, auth_token=forged({"alg": "RS256", "kid": f"k{number}"}, claims, b""))
    assert comes(server, auth_token=good)
    assert own_issuer.fetches() - before <= 1 + (time.monotonic() - began) / 5


@pytest.mark.parametrize("how", ["down", "error", "huge", "junk", "empty", "redirect", "stranger"])
def test_an_issuer_that_cannot_be_asked(ours: Launcher, own_issuer: Issuer, how: str) -> None:
    own_issuer.behave(how)
    server = ours.fresh(restless(own_issuer))
    server.wait_for_log(re.compile("Keys of the OpenID issuer .* cannot be had"))
    token = own_issuer.token(tenant="SHOP")
    assert not comes(server, auth_token=token)
    assert comes(server, user="shop", **{"pass": "shop"})
    own_issuer.behave("well")
    server.wait_for_log(re.compile("Keys of the OpenID issuer .* are here again"), timeout_s=20)
    assert comes(server, auth_token=token)


@pytest.mark.parametrize("how", ["slow", "drip"])
def test_a_slow_issuer_holds_up_nobody_else(ours: Launcher, own_issuer: Issuer, how: str) -> None:
    own_issuer.behave(how)
    server = ours.fresh(restless(own_issuer))
    with RawClient(server.port) as waiting:
        said = {"verbose": False, "auth_token": own_issuer.token(tenant="SHOP")}
        waiting.send(b"CONNECT " + json.dumps(said).encode() + b"\r\nPUB a 0\r\n\r\nPING\r\n")
        assert comes(server, user="shop", **{"pass": "shop"})
        assert b"-ERR 'Authentication Timeout'" in waiting.read_to_close()
    server.wait_for_log(re.compile("no answer in time"), timeout_s=20)
    own_issuer.behave("well")
    server.wait_for_log(re.compile("are here again"), timeout_s=20)
    assert comes(server, auth_token=own_issuer.token(tenant="SHOP"))


def test_an_issuer_that_goes_away_locks_nobody_out(ours: Launcher, own_issuer: Issuer) -> None:
    server = ours.fresh(restless(own_issuer))
    token = own_issuer.token(tenant="SHOP")
    assert comes(server, auth_token=token)
    own_issuer.behave("error")
    server.wait_for_log(re.compile("cannot be had: .*503"))
    assert comes(server, auth_token=token)


RULES = """
accounts { SHOP {}, OPS {} }
authorization {
  oidc [
    {
      issuer: "%s", audience: nats, user: "{{claim(email)}}"
      rules: [
        { match { groups: [admins, root], "https://x.y/level": "7" }, account: OPS }
        { match { groups: staff }, account: SHOP, permissions { publish: "desk.>" } }
      ]
    }
    { issuer: "%s", audience: nats, account: SHOP, permissions { subscribe: "s.>" } }
  ]
}
"""


def test_rules_choose_by_claims(ours: Launcher, issuer: Issuer, own_issuer: Issuer) -> None:
    server = ours(RULES % (issuer.url, own_issuer.url))
    mail = {"email": "ann@x.y"}
    admin = login(server, auth_token=issuer.token(groups=["staff", "root"], **mail, **{"https://x.y/level": 7}))
    assert admin is not None
    with admin:
        assert (who(admin)["user"], who(admin)["account"]) == ("ann@x.y", "OPS")
        assert may(admin, b"PUB anything 0\r\n") == [True]
    staff = login(server, auth_token=issuer.token(groups="staff", **mail))
    assert staff is not None
    with staff:
        assert may(staff, b"PUB desk.1 0\r\n", b"PUB other 0\r\n") == [True, False]
    assert not comes(server, auth_token=issuer.token(groups=["root"], **mail))
    assert not comes(server, auth_token=issuer.token(**mail))
    assert not comes(server, auth_token=issuer.token(groups="staff"))  # without a name
    other = login(server, auth_token=own_issuer.token())
    assert other is not None
    with other:
        assert may(other, b"SUB s.a 1", b"SUB t.a 2") == [True, False]
    # A token of one issuer is not checked with the keys of the other.
    assert not comes(server, auth_token=own_issuer.token(iss=issuer.url, groups="staff", **mail))


def test_a_reload_asks_again_what_tokens_mean(ours: Launcher, issuer: Issuer) -> None:
    config = CONFIG % issuer.url
    server = ours.fresh(config)
    shop = login(server, auth_token=issuer.token(tenant="SHOP"))
    ops = login(server, auth_token=issuer.token(tenant="OPS"))
    assert shop is not None and ops is not None
    assert may(shop, b"PUB orders.ann.x 0\r\n", b"PUB carts.ann.x 0\r\n") == [True, False]
    changed = config.replace("orders.{{claim(sub)}}.>", "carts.{{claim(sub)}}.>")
    changed = changed.replace("leeway:", "allowed_accounts: [SHOP], leeway:")
    server.reload(changed)
    assert b"-ERR 'Authorization Violation'" in ops.read_to_close()
    assert may(shop, b"PUB orders.ann.x 0\r\n", b"PUB carts.ann.x 0\r\n") == [False, True]
    server.reload(re.sub(r"audience: \[nats, other\]", "audience: mail", changed))
    assert b"-ERR 'Authorization Violation'" in shop.read_to_close()
    assert comes(server, auth_token=issuer.token(tenant="SHOP", aud="mail"))
    server.reload(changed.partition("  oidc {")[0] + "}\n")
    assert not comes(server, auth_token=issuer.token(tenant="SHOP", aud="mail"))
    shop.close()
    ops.close()


def test_keys_over_tls(ours: Launcher, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    pair = authority.issue("localhost", "127.0.0.1")
    with Issuer((str(pair.cert_file), str(pair.key_file), str(authority.ca_file))) as issuer:
        trusting = restless(issuer).replace("leeway:", f'tls {{ ca_file: "{authority.ca_file}" }}, leeway:')
        server = ours.fresh(trusting)
        assert comes(server, auth_token=issuer.token(tenant="SHOP"))
        assert not any("without TLS" in line for line in server.log_lines)
        server = ours.fresh(trusting.replace(str(authority.ca_file), str(stranger.ca_file)))
        server.wait_for_log("cannot be had: .*certificate verify failed")
        assert not comes(server, auth_token=issuer.token(tenant="SHOP"))
        issuer.behave("downgrade")
        server = ours.fresh(trusting)
        server.wait_for_log("cannot be had: the keys are at an address that is not safe")
        assert not comes(server, auth_token=issuer.token(tenant="SHOP"))


def test_the_address_of_the_keys_may_be_configured(ours: Launcher, own_issuer: Issuer) -> None:
    own_issuer.behave("stranger")  # what it says about itself is of no use
    server = ours.fresh((CONFIG % own_issuer.url).replace("leeway:", f'jwks: "{own_issuer.url}/keys", leeway:'))
    assert comes(server, auth_token=own_issuer.token(tenant="SHOP"))
    assert any("come without TLS" in line for line in server.log_lines)


def test_algorithms_and_kinds_of_connections_can_be_narrowed(ours: Launcher, issuer: Issuer) -> None:
    server = ours(
        (CONFIG % issuer.url).replace("leeway:", "algorithms: [ES256], allowed_connection_types: [STANDARD], leeway:")
        + WEBSOCKET
    )
    assert comes(server, auth_token=issuer.token(key="ES256", tenant="SHOP"))
    assert not comes(server, auth_token=issuer.token(key="RS256", tenant="SHOP"))
    assert not comes_by_websocket(server, auth_token=issuer.token(key="ES256", tenant="SHOP"))


WEBSOCKET = 'websocket { port: -1, no_tls: true, jwt_cookie: "j", token_cookie: "t" }\n'


def comes_by_websocket(server: ServerProcess, headers: dict[str, str] | None = None, **fields: object) -> bool:
    with RawClient(server.websocket_port) as socket:
        client = WebSocketClient(socket, **(headers or {}))
        first = b"CONNECT " + json.dumps({"verbose": False} | fields).encode() + b"\r\nPING\r\n"
        client.send(Frame(2, first, key=b"mask"))
        return b"PONG\r\n" in client.until(rb"PONG\r\n").stream


def test_the_ways_of_a_websocket(ours: Launcher, issuer: Issuer) -> None:
    server = ours(CONFIG % issuer.url + WEBSOCKET)
    good, bad = issuer.token(tenant="SHOP"), issuer.token(tenant="SHOP", aud="mail")
    assert comes_by_websocket(server, auth_token=good)
    for header in ({"Cookie": "j=%s"}, {"Cookie": "t=%s"}, {"Authorization": "Bearer %s"}):
        said = [{name: value % token for name, value in header.items()} for token in (good, bad)]
        assert comes_by_websocket(server, said[0])
        assert not comes_by_websocket(server, said[1])
        # What CONNECT says counts first.
        assert not comes_by_websocket(server, {"Authorization": f"Bearer {good}"}, auth_token=bad)
    assert not comes_by_websocket(server, {"Authorization": "Basic c2hvcDpzaG9w"})
    assert not comes_by_websocket(server)


def test_a_proxy_can_be_asked_for(ours: Launcher, issuer: Issuer) -> None:
    server = ours((CONFIG % issuer.url).replace("timeout: 2", "timeout: 2, proxy_required: true"))
    assert not comes(server, auth_token=issuer.token(tenant="SHOP"))


def test_clocks_may_differ_a_little(ours: Launcher, issuer: Issuer) -> None:
    server = ours((CONFIG % issuer.url).replace('leeway: "0s"', 'leeway: "60s"'))
    now = int(time.time())
    assert comes(server, auth_token=issuer.token(tenant="SHOP", exp=now - 5, nbf=now + 20, iat=now + 20))
    assert not comes(server, auth_token=issuer.token(tenant="SHOP", exp=now - 90))


def test_defaults_hold_for_those_without_permissions(ours: Launcher, issuer: Issuer) -> None:
    server = ours(
        f'''
        accounts {{ SHOP {{ default_permissions {{ publish: "shop.>" }} }} }}
        authorization {{
          default_permissions {{ publish: "global.>" }}
          oidc {{ issuer: "{issuer.url}", audience: nats, rules: [{{ match {{ in: shop }}, account: SHOP }}, {{}}] }}
        }}
        '''
    )
    for claims, expected in (({"in": "shop"}, [True, False]), ({}, [False, True])):
        client = login(server, auth_token=issuer.token(**claims))
        assert client is not None
        with client:
            assert may(client, b"PUB shop.a 0\r\n", b"PUB global.a 0\r\n") == expected


def test_nothing_secret_is_logged(ours: Launcher, issuer: Issuer) -> None:
    server = ours.fresh(CONFIG % issuer.url, "-DV")
    tokens = [issuer.token(tenant="SHOP"), issuer.token(tenant="SHOP", aud="mail")]
    for token in tokens:
        for field in ("auth_token", "jwt", "pass"):
            comes(server, **{field: token})
    server.wait_for_log(re.compile("OpenID: the token is for another audience"))
    log = "\n".join(server.log_lines)
    for token in tokens:
        assert token.rpartition(".")[2] not in log
