"""Operator mode: whose keys count, what tokens share and limit, and cookies that carry them."""

from __future__ import annotations

import json
import time

import pytest

from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.keys import nonce_of, url_base64
from support.normalise import Json
from support.raw_client import RawClient
from support.servers import Both
from support.transcript import Peer, Script, Talk, connect_line, each, pub

operator, signer, strict, stranger = (Key(OPERATOR, name) for name in ("operator", "signer", "strict", "stranger"))
system, app, other, third, ring = (Key(ACCOUNT, name) for name in ("SYS", "APP", "OTHER", "THIRD", "RING"))
app_signer, scoped = Key(ACCOUNT, "app signer"), Key(ACCOUNT, "app scope")
ann, bob = Key(USER, "ann"), Key(USER, "bob")


def preload(accounts: dict[Key, str]) -> str:
    """The tokens of accounts, as the configuration has them."""
    return (
        "resolver: MEMORY\nresolver_preload {\n" + "".join(f"  {a.public}: {t}\n" for a, t in accounts.items()) + "}\n"
    )


def login(talk: Talk, text: str, key: Key = ann, name: str = "a", /, **options: Json) -> Peer:
    """A peer that presents a token and signs the nonce."""
    peer = talk.open(name)
    proof = url_base64(key.sign(nonce_of(bytes(peer.received)).encode()))
    peer.send(connect_line(**({"jwt": text, "sig": proof} | options))).sync()
    if not peer.closed:
        peer.sync()
    return peer


def says(name: str, text: str, data: bytes = b"", key: Key = ann, /, **options: Json) -> Script:
    """A script that logs in and sends some bytes."""

    def run(talk: Talk) -> None:
        peer = login(talk, text, key, **options)
        if data and not peer.closed:
            peer.send(data).sync()

    run.__name__ = name
    return run


# --- whose keys count ------------------------------------------------------------------------------------------------

SIGNED = {
    system: token(operator, system, account_claims()),
    app: token(signer, app, account_claims(signing_keys=[app_signer.public])),
    other: token(stranger, other, account_claims()),
    third: token(third, third, account_claims()),
}
BY_KEY = f"trusted_keys: [{operator.public}, {signer.public}]\nsystem_account: {system.public}\n" + preload(SIGNED)
BY_OPERATOR = (
    f"operator: [{token(operator, operator, {'signing_keys': [signer.public]})}, {token(strict, strict, {})}]\n"
    f"system_account: {system.public}\n" + preload(SIGNED)
)
STRICT = (
    f"operator: {token(operator, operator, {'signing_keys': [signer.public], 'strict_signing_key_usage': True})}\n"
    + preload(SIGNED | {system: token(signer, system, account_claims())})
    + f"system_account: {system.public}\n"
)
PINNED = (
    f"operator: {token(operator, operator, {'signing_keys': [signer.public]})}\nsystem_account: {system.public}\n"
    f"resolver_pinned_accounts: [{other.public}]\n" + preload(SIGNED)
)
SENTINEL = (
    f"operator: {token(operator, operator, {'signing_keys': [signer.public]})}\nsystem_account: {system.public}\n"
    f"default_sentinel: {token(app, bob, user_claims(bearer_token=True, pub={'deny': ['x']}))}\n" + preload(SIGNED)
)
WHO: list[Script] = [
    says("of the operator", token(system, ann, user_claims())),
    says("of a signing key", token(app, ann, user_claims())),
    says("of a signing key, by a signing key", token(app_signer, ann, user_claims(issuer_account=app.public))),
    says("of a stranger", token(other, ann, user_claims())),
    says("signed by itself", token(third, ann, user_claims())),
    says("of nobody", token(ring, ann, user_claims())),
    says("without a token", "", b"SUB x 1\r\n" + pub("x") + pub("y"), jwt=None, sig=None),
    says("with something else", "no token", pub("x"), user="a", **{"pass": "b"}),
]


@pytest.mark.parametrize(
    "config",
    [BY_KEY, BY_OPERATOR, STRICT, PINNED, SENTINEL],
    ids=["trusted_keys", "operators", "strict", "resolver_pinned_accounts", "default_sentinel"],
)
@each(WHO)
def test_who_is_trusted(both: Both, config: str, script: Script) -> None:
    both(config).agree(script)


# --- what tokens say -------------------------------------------------------------------------------------------------


def activation(issuer: Key, to: Key, **part: Json) -> str:
    """A token that lets an account import."""
    top = {"exp": part.pop("exp")} if "exp" in part else {}
    return token(issuer, to, {"type": "activation", "subject": "private.>", "kind": "stream"} | part, **top)


def _old(issuer: Key, subject: Key, part: dict[str, Json], **top: Json) -> str:
    """A token of version 1."""
    body: dict[str, Json] = {
        "jti": "x",
        "iat": 1_700_000_000,
        "iss": issuer.public,
        "sub": subject.public,
        "name": "v1",
    }
    body |= {"nats": part, "type": "user"} | top
    head, claims = (url_base64(json.dumps(p).encode()) for p in ({"typ": "jwt", "alg": "ed25519"}, body))
    return f"{head}.{claims}.{url_base64(issuer.sign(claims.encode()))}"


def _takes(**fields: Json) -> Json:
    return {"name": "p", "subject": "private.>", "account": app.public, "type": "stream"} | fields


SCOPE: Json = {
    "kind": "user_scope",
    "key": scoped.public,
    "role": "r",
    "template": user_claims(
        pub={
            "allow": ["{{name()}}.{{tag(team)}}.{{account-name()}}", "{{account-tag(zone)}}.>"],
            "deny": ["no.{{subject()}}"],
        },
        sub={"allow": ["in.{{tag(none)}}"]},
        payload=10,
    ),
}
HOLDERS = {
    name: Key(ACCOUNT, f"holder {name}")
    for name in (
        "good",
        "none",
        "another's",
        "other subject",
        "revoked",
        "expired",
        "by a signing key",
        "by a strange key",
    )
}
TOKENS = {
    "good": activation(app, HOLDERS["good"]),
    "none": "",
    "another's": activation(app, HOLDERS["good"]),
    "other subject": activation(app, HOLDERS["other subject"], subject="private.a"),
    "revoked": activation(app, HOLDERS["revoked"]),
    "expired": activation(app, HOLDERS["expired"], exp=1_700_000_001),
    "by a signing key": activation(app_signer, HOLDERS["by a signing key"], issuer_account=app.public),
    "by a strange key": activation(ring, HOLDERS["by a strange key"], issuer_account=app.public),
}
SHARING = {
    system: token(operator, system, account_claims()),
    app: token(
        operator,
        app,
        account_claims(
            signing_keys=[app_signer.public, SCOPE],
            tags=["zone:eu", "zone:us"],
            default_permissions={
                "pub": {"deny": ["secret"]},
                "sub": {"deny": ["secret"]},
                "resp": {"max": 2, "ttl": 0},
            },
            mappings={"old.*": [{"subject": "new.$1"}], "bad.*": [{"subject": "new.$2"}]},
            exports=[
                {
                    "name": "p",
                    "subject": "private.>",
                    "type": "stream",
                    "token_req": True,
                    "revocations": {HOLDERS["revoked"].public: int(time.time())},
                },
                {"name": "o", "subject": "own.*", "type": "stream", "account_token_position": 2},
                {"name": "s", "subject": "svc.*", "type": "service", "response_type": "Stream"},
            ],
        ),
    ),
    **{
        holder: token(
            operator, holder, account_claims(imports=[_takes(**({"token": TOKENS[name]} if TOKENS[name] else {}))])
        )
        for name, holder in HOLDERS.items()
    },
    other: token(
        operator,
        other,
        account_claims(
            imports=[
                {"name": "o", "subject": f"own.{other.public}", "account": app.public, "type": "stream"},
                {"name": "s", "subject": "svc.*", "account": app.public, "type": "service", "local_subject": "ask.*"},
                {"name": "m", "subject": "nothing", "account": ring.public, "type": "stream"},
            ]
        ),
    ),
}
TREE = f"operator: {token(operator, operator, {'system_account': system.public})}\n" + preload(SHARING)
IN_SCOPE: dict[str, Json] = {"issuer_account": app.public, "tags": ["team:a", "team:b"]}
RIGHTS: list[Script] = [
    says(
        "default permissions", token(app, ann, user_claims()), b"SUB secret 1\r\nSUB a 2\r\n" + pub("secret") + pub("a")
    ),
    says(
        "own permissions",
        token(app, ann, user_claims(pub={"allow": ["secret"]})),
        b"SUB secret 1\r\n" + pub("secret") + pub("a"),
    ),
    says(
        "a scope",
        token(scoped, ann, IN_SCOPE),
        b"SUB in.x 1\r\n"
        + pub("ann.a.APP")
        + pub("ann.b.APP")
        + pub("ann.c.APP")
        + pub("eu.x")
        + pub(f"no.{ann.public}"),
    ),
    says("a scope and its payload", token(scoped, ann, IN_SCOPE), pub("eu.x", b"01234567890")),
    says("a scope and rights", token(scoped, ann, user_claims(issuer_account=app.public))),
    says("a scope without a tag", token(scoped, ann, {"issuer_account": app.public}), pub("ann.a.APP") + pub("eu.x")),
    says("mapped", token(other, ann, user_claims()), b"SUB ask.a 1\r\n" + pub("ask.a")),
    says("version 1", _old(app, ann, {"pub": {"allow": ["a"]}, "sub": {}}), pub("a") + pub("b")),
    says("version 1 by a signing key", _old(app_signer, ann, {}, issuer_account=app.public), pub("a")),
    says(
        "unknown kind of connection beside a known one",
        token(app, ann, user_claims(allowed_connection_types=["standard", "odd"])),
    ),
    says("unknown kind of connection", token(app, ann, user_claims(allowed_connection_types=["odd"]))),
    says(
        "a place that does not exist",
        token(app, ann, user_claims(times=[{"start": "00:00:00", "end": "23:59:59"}], times_location="Nowhere/At")),
    ),
    says(
        "all day in Tokyo",
        token(
            app,
            ann,
            user_claims(
                times=[{"start": "00:00:00", "end": "12:00:00"}, {"start": "11:59:00", "end": "23:59:59"}],
                times_location="Asia/Tokyo",
            ),
        ),
    ),
    says("a subject that is none", token(app, ann, user_claims(pub={"allow": ["a..b"]}))),
    says("only through a proxy", token(app, ann, user_claims(proxy_required=True))),
    says("an nkey beside it", token(app, ann, user_claims()), pub("a"), ann, nkey=ann.public),
    says("account expired", token(ring, ann, user_claims())),
]


@each(RIGHTS)
def test_rights(both: Both, script: Script) -> None:
    both(TREE).agree(script)


@pytest.mark.parametrize("claims", [user_claims(subs=0), {"pub": {}, "sub": {}}], ids=["none", "not named"])
def test_no_subscriptions_at_all(both: Both, claims: dict[str, Json]) -> None:
    """nats-server lets such a user in and closes 20 ms later; the order of the two is a matter of chance there."""
    pair = both(TREE)
    for server in (pair.real, pair.ours):
        client = RawClient(server.port)
        proof = url_base64(ann.sign(nonce_of(client.read_until(b"\r\n")).encode()))
        client.send(connect_line(jwt=token(app, ann, claims), sig=proof))
        assert b"-ERR 'maximum subscriptions exceeded'" in client.read_to_close()
        client.close()


def _private(name: str) -> Script:
    def run(talk: Talk) -> None:
        taker = login(talk, token(HOLDERS[name], ann, user_claims()), ann, "taker")
        taker.send(b"SUB private.> 1\r\n").sync()
        owner = login(talk, token(app, ann, user_claims(pub={"allow": [">"]})), ann, "owner")
        owner.send(pub("private.a", b"x") + pub("private.b", b"y")).sync()
        taker.sync()

    run.__name__ = name
    return run


@each([_private(name) for name in HOLDERS])
def test_activations(both: Both, script: Script) -> None:
    both(TREE).agree(script)


def shared(talk: Talk) -> None:
    taker = login(talk, token(other, ann, user_claims()), ann, "taker")
    taker.send(f"SUB own.{other.public} 1\r\nSUB _INBOX.x 2\r\n".encode()).sync()
    owner = login(talk, token(app, ann, user_claims(pub={"allow": [">"]})), ann, "owner")
    owner.send(b"SUB svc.* 1\r\nSUB new.* 2\r\n" + pub(f"own.{other.public}", b"x") + pub("own.b", b"y")).sync()
    owner.send(pub("old.a", b"m")).sync()
    taker.sync()
    taker.send(pub("ask.me", b"?", "_INBOX.x")).sync()
    owner.sync()
    talk.must_show(rb"MSG svc.me 1")
    talk.must_show(rb"MSG new.a 2")


def test_sharing(both: Both) -> None:
    both(TREE).agree(shared)


# --- cookies ---------------------------------------------------------------------------------------------------------

COOKIE = TREE + "websocket { port: -1, host: 127.0.0.1, no_tls: true, jwt_cookie: tok }\n"


@pytest.mark.parametrize(
    ("cookie", "let_in"),
    [
        (token(app, ann, user_claims(bearer_token=True)), True),
        (token(app, ann, user_claims()), False),
        (token(app, ann, user_claims(bearer_token=True, allowed_connection_types=["STANDARD"])), False),
        (token(app, ann, user_claims(bearer_token=True, allowed_connection_types=["WEBSOCKET"])), True),
    ],
    ids=["bearer", "signed", "standard only", "websocket only"],
)
def test_jwt_cookie(both: Both, cookie: str, let_in: bool) -> None:
    pair = both(COOKIE)
    for server in (pair.real, pair.ours):
        assert _by_cookie(server.websocket_port, cookie) is let_in


def _by_cookie(port: int, cookie: str) -> bool:
    client = RawClient(port)
    try:
        client.send(
            f"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            f"Sec-WebSocket-Version: 13\r\nCookie: tok={cookie}\r\n\r\n".encode()
        )
        client.read_until(b"INFO [^\r]*\r\n")
        client.send(_frame(b"CONNECT {}\r\nPING\r\n"))
        return b"PONG" in client.read_until(b"PONG|-ERR")
    finally:
        client.close()


def _frame(data: bytes) -> bytes:
    return bytes((0x82, 0x80 | len(data), 0, 0, 0, 0)) + data
