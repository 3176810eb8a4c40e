"""Authentication: who gets in with what, what the others are told, and how long they may take."""

from __future__ import annotations

import base64
from collections.abc import Callable

from support.keys import (
    BCRYPT_OF_OPEN_SESAME,
    BCRYPT_OF_TOK,
    OTHER_KEY,
    OTHER_SEED,
    USER_KEY,
    USER_SEED,
    nonce_of,
    signature,
    url_base64,
)
from support.normalise import Json
from support.servers import Both
from support.transcript import Case, Deliberate, Script, Talk, case, connect_line, each, pub, unconnected

VIOLATION = rb"-ERR 'Authorization Violation'"
WELCOME = rb"PONG\r\nINFO"

SINGLE = "authorization { user: bob, password: secret }"
TOKEN = "authorization { token: tok }"
HASHED_TOKEN = f"authorization {{ token: '{BCRYPT_OF_TOK}' }}"
USERS = f"""
authorization {{
  users = [
    {{ user: ann, password: "open" }}
    {{ user: hash, password: "{BCRYPT_OF_OPEN_SESAME}" }}
    {{ user: empty, password: "" }}
    {{ nkey: {USER_KEY} }}
  ]
}}
"""
NO_AUTH_USER = """
no_auth_user: guest
authorization {
  users = [
    { user: guest, password: "g", permissions: { publish: "open.>", subscribe: ["open.>", "_INBOX.>"] } }
    { user: boss, password: "b" }
  ]
}
"""
SLOW = "authorization { user: bob, password: secret, timeout: 0.4 }"

FIRST_OPS: list[Script] = [
    unconnected("PING first", b"PING\r\n", VIOLATION),
    unconnected("SUB first", b"SUB foo 1\r\n", VIOLATION),
    unconnected("PUB first", pub("foo"), VIOLATION),
    unconnected("HPUB first", b"HPUB foo 0 0\r\n\r\n"),
    unconnected("UNSUB first", b"UNSUB 1\r\n", VIOLATION),
    unconnected("PONG first", b"PONG\r\n", VIOLATION),
    unconnected("+OK first", b"+OK\r\n"),
    unconnected("-ERR first", b"-ERR x\r\n"),
    unconnected("INFO first", b"INFO {}\r\n"),
    unconnected("unknown first", b"FOO\r\n"),
    unconnected("CONNECT cut short", b"CONN\r\n"),
    unconnected("bad JSON", b"CONNECT {\r\n", rb"<closed>"),
    unconnected("over the control line", b'CONNECT {"name":"' + b"x" * 5000 + b'"}\r\n'),
]


def credentials(name: str, seen: bytes, **options: Json) -> Case:
    """A case that only connects."""
    return case(name, b"", seen, **options)


PASSWORDS: list[Script] = [
    credentials("good", WELCOME, user="bob", **{"pass": "secret"}),
    credentials("good verbose", rb"\+OK\r\nPONG", user="bob", verbose=True, **{"pass": "secret"}),
    credentials("wrong password", VIOLATION, user="bob", **{"pass": "Secret"}),
    credentials("wrong password verbose", VIOLATION, user="bob", verbose=True, **{"pass": "Secret"}),
    credentials("wrong user", VIOLATION, user="eve", **{"pass": "secret"}),
    credentials("no password", VIOLATION, user="bob"),
    credentials("no user", VIOLATION, **{"pass": "secret"}),
    credentials("empty password", VIOLATION, user="bob", **{"pass": ""}),
    credentials("longer password", VIOLATION, user="bob", **{"pass": "secretsecret"}),
    credentials("token instead", VIOLATION, auth_token="secret"),
    credentials("nothing", VIOLATION),
    credentials("account named", VIOLATION, user="bob", account="A", **{"pass": "secret"}),
    case(
        "second CONNECT wrong", connect_line(user="bob", **{"pass": "no"}), VIOLATION, user="bob", **{"pass": "secret"}
    ),
    case("second CONNECT right", connect_line(user="bob", **{"pass": "secret"}), user="bob", **{"pass": "secret"}),
    case("nothing before is done", pub("x"), VIOLATION, user="eve"),
]

TOKENS: list[Script] = [
    credentials("good", WELCOME, auth_token="tok"),
    credentials("wrong", VIOLATION, auth_token="TOK"),
    credentials("none", VIOLATION),
    credentials("empty", VIOLATION, auth_token=""),
    credentials("as password", VIOLATION, **{"pass": "tok"}),
    credentials("as user", VIOLATION, user="tok"),
    credentials("token and user", WELCOME, user="x", auth_token="tok", **{"pass": "y"}),
    credentials("wrong type", rb"<closed>", auth_token=1),
]

MANY: list[Script] = [
    credentials("ann", WELCOME, user="ann", **{"pass": "open"}),
    credentials("ann wrong", VIOLATION, user="ann", **{"pass": "open sesame"}),
    credentials("bcrypt", WELCOME, user="hash", **{"pass": "open sesame"}),
    credentials("bcrypt wrong", VIOLATION, user="hash", **{"pass": "open"}),
    credentials("bcrypt hash itself", VIOLATION, user="hash", **{"pass": BCRYPT_OF_OPEN_SESAME}),
    Deliberate(credentials("empty password, none given", rb"", user="empty"), "an empty password never matches: ADR 4"),
    credentials("empty password, some given", VIOLATION, user="empty", **{"pass": "x"}),
    credentials("nkey as user", VIOLATION, user=USER_KEY),
    credentials("nothing", VIOLATION),
]


def signed(name: str, sign: Callable[[str], str | None], key: str | None = USER_KEY, **options: Json) -> Script:
    """A script that answers the nonce with what `sign` makes of it."""

    def run(talk: Talk) -> None:
        peer = talk.open()
        proof = sign(nonce_of(bytes(peer.received)))
        peer.send(connect_line(nkey=key, sig=proof, **options)).sync()
        peer.sync()

    run.__name__ = f"nkey {name}"
    return run


NKEYS: list[Script] = [
    signed("good", lambda nonce: url_base64(signature(USER_SEED, nonce))),
    signed("good, standard alphabet", lambda nonce: base64.b64encode(signature(USER_SEED, nonce)).decode()),
    signed("signed by another", lambda nonce: url_base64(signature(OTHER_SEED, nonce))),
    signed("unknown key", lambda nonce: url_base64(signature(OTHER_SEED, nonce)), OTHER_KEY),
    signed("wrong text signed", lambda nonce: url_base64(signature(USER_SEED, nonce + "x"))),
    signed("no signature", lambda _: None),
    signed("empty signature", lambda _: ""),
    signed("signature not base64", lambda _: "!!!!"),
    signed("signature too short", lambda nonce: url_base64(signature(USER_SEED, nonce)[:32])),
    signed("key cut short", lambda nonce: url_base64(signature(USER_SEED, nonce)), USER_KEY[:20]),
    signed("no key", lambda nonce: url_base64(signature(USER_SEED, nonce)), None),
    signed("key and password", lambda nonce: url_base64(signature(USER_SEED, nonce)), user="ann", **{"pass": "open"}),
    signed("bad key, good password", lambda _: "x", OTHER_KEY, user="ann", **{"pass": "open"}),
]

GUESTS: list[Script] = [
    unconnected("no CONNECT", b"SUB open.x 1\r\n" + pub("open.x", b"hi") + pub("shut", b"hi"), rb"MSG open.x 1"),
    credentials("no credentials", WELCOME),
    case("guest's rights", b"SUB shut 1\r\nSUB open.x 2\r\n" + pub("shut") + pub("open.x"), rb"MSG open.x 2"),
    case("boss's rights", b"SUB shut 1\r\n" + pub("shut"), rb"MSG shut 1", user="boss", **{"pass": "b"}),
    credentials("wrong password is no guest", VIOLATION, user="boss", **{"pass": "x"}),
    credentials("unknown user is no guest", VIOLATION, user="eve"),
    credentials("token is no guest", rb"INFO", auth_token="x"),
]


def silent_client_times_out(talk: Talk) -> None:
    talk.open().until_closed()
    talk.must_show(rb"-ERR 'Authentication Timeout'")


def half_a_connect_times_out(talk: Talk) -> None:
    talk.open().send(b'CONNECT {"user":"bob"').until_closed()
    talk.must_show(rb"-ERR 'Authentication Timeout'")


@each([*FIRST_OPS, *PASSWORDS])
def test_user_and_password(both: Both, script: Script) -> None:
    both(SINGLE).agree(script)


@each(TOKENS)
def test_token(both: Both, script: Script) -> None:
    both(TOKEN).agree(script)


@each(TOKENS[:4])
def test_hashed_token(both: Both, script: Script) -> None:
    both(HASHED_TOKEN).agree(script)


@each([*MANY, *NKEYS, FIRST_OPS[1]])
def test_many_users(both: Both, script: Script) -> None:
    both(USERS).agree(script)


@each(GUESTS)
def test_no_auth_user(both: Both, script: Script) -> None:
    both(NO_AUTH_USER).agree(script)


@each([silent_client_times_out, half_a_connect_times_out])
def test_authentication_timeout(both: Both, script: Script) -> None:
    both(SLOW).agree(script)


@each([PASSWORDS[0], PASSWORDS[2]])
def test_password_flags(both: Both, script: Script) -> None:
    both("", "--user", "bob", "--pass", "secret").agree(script)


@each(TOKENS[:3])
def test_token_flag(both: Both, script: Script) -> None:
    both("", "--auth", "tok").agree(script)
