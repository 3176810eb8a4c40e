"""Operator mode with a memory resolver: tokens good and bad, what they limit, what they share."""

from __future__ import annotations

import time

from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.keys import nonce_of, url_base64
from support.normalise import Json
from support.servers import Both
from support.transcript import Peer, Script, Talk, connect_line, each, pub

operator = Key(OPERATOR, "operator")
system, app, other, expired, small = (Key(ACCOUNT, name) for name in ("SYS", "APP", "OTHER", "EXPIRED", "SMALL"))
signer, scoped, unknown = Key(ACCOUNT, "app signer"), Key(ACCOUNT, "app scope"), Key(ACCOUNT, "UNKNOWN")
ann, revoked = Key(USER, "ann"), Key(USER, "revoked")

SCOPE: dict[str, Json] = {
    "kind": "user_scope",
    "key": scoped.public,
    "role": "scoped",
    "template": user_claims(pub={"allow": ["scope.{{name()}}"]}, sub={"allow": ["scope.>", "_INBOX.>"]}),
}
LIMITS: dict[str, Json] = {
    "subs": 2,
    "data": -1,
    "payload": 64,
    "imports": -1,
    "exports": -1,
    "wildcards": True,
    "conn": 2,
    "leaf": -1,
}
ACCOUNTS = {
    system: account_claims(),
    app: account_claims(
        signing_keys=[signer.public, SCOPE],
        revocations={revoked.public: int(time.time())},
        exports=[
            {"name": "news", "subject": "news.>", "type": "stream"},
            {"name": "help", "subject": "help", "type": "service", "response_type": "Singleton"},
        ],
    ),
    other: account_claims(
        imports=[
            {"name": "news", "subject": "news.>", "account": app.public, "local_subject": "in.>", "type": "stream"},
            {"name": "help", "subject": "help", "account": app.public, "local_subject": "aid", "type": "service"},
        ]
    ),
    small: account_claims(limits=LIMITS),
}


def config() -> str:
    """The server's configuration: operator, system account and the accounts it knows."""
    known = {account: token(operator, account, claims) for account, claims in ACCOUNTS.items()}
    known[expired] = token(operator, expired, account_claims(), exp=1_700_000_001)
    preload = "".join(f"  {account.public}: {text}\n" for account, text in known.items())
    claim = token(operator, operator, {"system_account": system.public})
    return f"operator: {claim}\nresolver: MEMORY\nresolver_preload: {{\n{preload}}}\n"


def login(talk: Talk, text: str, key: Key = ann, name: str = "a", /, **options: Json) -> Peer:
    """A peer that presents a token and signs the nonce."""
    peer = talk.open(name)
    proof = url_base64(key.sign(nonce_of(bytes(peer.received)).encode()))
    peer.send(connect_line(**({"jwt": text, "sig": proof} | options))).sync()
    if not peer.closed:
        peer.sync()
    return peer


def presents(name: str, text: str, key: Key = ann, /, **options: Json) -> Script:
    """A script that only logs in."""

    def run(talk: Talk) -> None:
        login(talk, text, key, **options)

    run.__name__ = name
    return run


def does(name: str, text: str, data: bytes) -> Script:
    """A script that logs in and sends some bytes."""

    def run(talk: Talk) -> None:
        login(talk, text).send(data).sync()

    run.__name__ = name
    return run


GOOD = token(app, ann, user_claims())
RIGHTS = user_claims(
    pub={"allow": ["a.>"], "deny": ["a.no"]}, sub={"allow": ["a.>", "q one"]}, resp={"max": 1, "ttl": 0}
)

LOGINS: list[Script] = [
    presents("good", GOOD),
    presents("good, signed by a signing key", token(signer, ann, user_claims(issuer_account=app.public))),
    presents("signing key without its account", token(signer, ann, user_claims())),
    presents("signing key of another account", token(signer, ann, user_claims(issuer_account=other.public))),
    presents("signed by a stranger", token(unknown, ann, user_claims())),
    presents("signed by the operator", token(operator, ann, user_claims())),
    presents("nonce signed by another key", GOOD, revoked),
    presents("no signature", GOOD, sig=None),
    presents("bearer without signature", token(app, ann, user_claims(bearer_token=True)), sig=None),
    presents("expired", token(app, ann, user_claims(), exp=1_700_000_001)),
    presents("not yet valid", token(app, ann, user_claims(), nbf=4_000_000_000)),
    presents("revoked", token(app, revoked, user_claims()), revoked),
    presents("account expired", token(expired, ann, user_claims())),
    presents("wrong algorithm", GOOD.replace(GOOD.split(".")[0], url_base64(b'{"typ":"JWT","alg":"none"}'))),
    presents("tampered", GOOD[:-4] + "AAAA"),
    presents("two parts", ".".join(GOOD.split(".")[:2])),
    presents("garbage", "a.b.c"),
    presents("empty", ""),
    presents("account token instead", token(operator, app, account_claims())),
    presents("no token", GOOD, jwt=None),
    presents("password instead", GOOD, jwt=None, sig=None, user="ann", **{"pass": "x"}),
    presents("only for WebSocket", token(app, ann, user_claims(allowed_connection_types=["WEBSOCKET"]))),
    presents("only for standard", token(app, ann, user_claims(allowed_connection_types=["STANDARD"]))),
    presents("from another network", token(app, ann, user_claims(src=["192.0.2.0/24"]))),
    presents("from this network", token(app, ann, user_claims(src=["127.0.0.0/8"]))),
    presents("at no time", token(app, ann, user_claims(times=[{"start": "00:00:00", "end": "00:00:01"}]))),
    presents("system account", token(system, ann, user_claims())),
]
WORK: list[Script] = [
    does("talks", GOOD, b"SUB foo 1\r\n" + pub("foo", b"hi")),
    does(
        "rights",
        token(app, ann, RIGHTS),
        b"SUB a.x 1\r\nSUB b 2\r\nSUB q one 3\r\n" + pub("a.x") + pub("a.no") + pub("b"),
    ),
    does("payload of a user", token(app, ann, user_claims(payload=10)), pub("foo", b"x" * 11)),
    does("subscriptions of a user", token(app, ann, user_claims(subs=1)), b"SUB a 1\r\nSUB b 2\r\n"),
    does("payload of an account", token(small, ann, user_claims()), pub("foo", b"x" * 65)),
    does("subscriptions of an account", token(small, ann, user_claims()), b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n"),
    does(
        "scope",
        token(scoped, ann, {"issuer_account": app.public}),
        b"SUB scope.x 1\r\nSUB b 2\r\n" + pub("scope.ann") + pub("scope.x") + pub("b"),
    ),
]


def shared_between_accounts(talk: Talk) -> None:
    owner = login(talk, GOOD, ann, "owner")
    importer = login(talk, token(other, ann, user_claims()), ann, "importer")
    importer.send(b"SUB in.> 1\r\n").sync()
    owner.send(b"SUB help 1\r\n" + pub("news.uk", b"x")).sync()
    importer.send(pub("aid", b"?")).sync()
    owner.sync()
    importer.sync()
    talk.must_show(rb"MSG in.uk 1 1")


def connections_of_an_account(talk: Talk) -> None:
    for name in ("one", "two", "three"):
        login(talk, token(small, ann, user_claims()), ann, name)


def expires_while_connected(talk: Talk) -> None:
    peer = login(talk, token(app, ann, user_claims(), exp=int(time.time()) + 2))
    peer.until_closed()
    talk.must_show(rb"User Authentication Expired")


CONFIG = config()


@each([*LOGINS, *WORK, shared_between_accounts, expires_while_connected])
def test_operator_mode(both: Both, script: Script) -> None:
    both(CONFIG).agree(script)


def test_account_connections(both: Both) -> None:
    both.fresh(CONFIG).agree(connections_of_an_account)
