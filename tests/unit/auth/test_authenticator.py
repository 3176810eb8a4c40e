"""Logins: every way in, and every restriction on every way. Expected answers were taken from nats-server 2.15.1."""

import base64
from dataclasses import dataclass
from typing import Any

import bcrypt
import nkeys as reference
import pytest

from slipstream.auth.authenticator import (
    Authenticator,
    Denied,
    Granted,
    Identity,
    NeedsCallout,
    NeedsPasswordCheck,
    PeerFacts,
    Verdict,
)
from slipstream.auth.identity import Credentials
from slipstream.auth.tls_map import PeerCertificate
from slipstream.config.account_options import (
    AccountOptions,
    AuthCalloutOptions,
    AuthorizationOptions,
    PermissionsOptions,
    SubjectPermissionOptions,
    UserOptions,
)
from slipstream.config.listener_options import TLSOptions, WebsocketOptions
from slipstream.config.options import Options

PAIR = reference.from_seed(reference.encode_seed(bytes(32), reference.PREFIX_BYTE_USER))
NKEY = PAIR.public_key.decode()
NONCE = b"PXoWU7zWAMt75FY"
HASH = bcrypt.hashpw(b"p", bcrypt.gensalt(4)).decode()


@dataclass
class Connect:
    """CONNECT with the fields a login looks at."""

    user: str | None = None
    password: str | None = None
    auth_token: str | None = None
    nkey: str | None = None
    sig: str | None = None
    jwt: str | None = None
    account: str | None = None
    new_account: bool | None = None
    proxy_sig: str | None = None


ANONYMOUS = Connect()
STANDARD = PeerFacts(nonce=NONCE)
WEBSOCKET = PeerFacts(kind="WEBSOCKET", nonce=NONCE)


def _sign(nonce: bytes = NONCE) -> str:
    return base64.urlsafe_b64encode(PAIR.sign(nonce)).rstrip(b"=").decode()


def _password(user: str, password: str) -> Connect:
    return Connect(user=user, password=password)


def _decide(options: Options, connect: Connect, peer: PeerFacts = STANDARD) -> Verdict:
    verdict = Authenticator(options).authenticate(connect, peer)
    return verdict.resume(verdict.job()) if isinstance(verdict, NeedsPasswordCheck) else verdict


def _identity(options: Options, connect: Connect, peer: PeerFacts = STANDARD) -> Identity:
    verdict = _decide(options, connect, peer)
    assert isinstance(verdict, Granted), verdict
    return verdict.identity


def _refused(options: Options, connect: Connect, peer: PeerFacts = STANDARD) -> bool:
    return isinstance(_decide(options, connect, peer), Denied)


def _users(*users: UserOptions) -> AuthorizationOptions:
    return AuthorizationOptions(users=users, defined=True)


def _account(name: str, *users: UserOptions) -> AccountOptions:
    return AccountOptions(name=name, users=users)


ALICE = UserOptions(user="a", password="p")


def test_protocol_is_met_by_the_connect_of_these_tests() -> None:
    credentials: Credentials = Connect()
    assert credentials.user is None


# --- an open server ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connect", "user"),
    [
        (ANONYMOUS, ""),
        (_password("x", "y"), "x"),
        (Connect(auth_token="t"), "[REDACTED]"),
        (Connect(nkey="UX"), "UX"),
        (Connect(jwt="eyJ"), ""),
        (Connect(account="", new_account=False), ""),
    ],
)
def test_an_open_server_lets_everybody_into_the_global_account(connect: Connect, user: str) -> None:
    authenticator = Authenticator(Options())
    assert not authenticator.auth_required and not authenticator.needs_nonce and authenticator.accepts_anonymous()
    identity = _identity(Options(), connect)
    assert (identity.user, identity.account, identity.permissions) == (user, "$G", None)


def test_accounts_without_users_leave_the_server_open() -> None:
    assert _identity(Options(accounts=(_account("A"),)), _password("a", "p")).account == "$G"


@pytest.mark.parametrize(
    "connect", [Connect(account="A"), Connect(new_account=True), Connect(account="$SYS", user="a")]
)
def test_a_client_cannot_choose_its_account(connect: Connect) -> None:
    """CVE-2022-24450: `account` and `new_account` in CONNECT let a client into any account."""
    assert _refused(Options(), connect)
    assert _refused(Options(accounts=(_account("A", ALICE),)), connect)
    connect.user, connect.password = "a", "p"
    assert _refused(Options(accounts=(_account("A", ALICE),)), connect)


# --- one user, one token ----------------------------------------------------------------------------------------------


def test_single_user() -> None:
    options = Options(authorization=AuthorizationOptions(user="x", password="y", defined=True))
    assert Authenticator(options).auth_required
    assert _identity(options, _password("x", "y")).user == "x"
    for connect in (ANONYMOUS, _password("x", ""), Connect(user="x"), _password("z", "y"), Connect(auth_token="y")):
        assert _refused(options, connect)


def test_single_token_is_never_shown() -> None:
    options = Options(authorization=AuthorizationOptions(token="t", defined=True))
    identity = _identity(options, Connect(auth_token="t"))
    assert (identity.user, identity.means) == ("[REDACTED]", "token")
    assert "'t'" not in repr(identity)
    for connect in (
        ANONYMOUS,
        Connect(user="t"),
        Connect(auth_token=""),
        Connect(password="t"),
        Connect(auth_token="u"),
    ):
        assert _refused(options, connect)


@pytest.mark.parametrize(
    ("authorization", "connect"),
    [
        (AuthorizationOptions(user="x", password=HASH, defined=True), _password("x", "p")),
        (AuthorizationOptions(token=HASH, defined=True), Connect(auth_token="p")),
        (_users(UserOptions(user="x", password=HASH)), _password("x", "p")),
    ],
)
def test_bcrypt_is_left_to_a_worker(authorization: AuthorizationOptions, connect: Connect) -> None:
    verdict = Authenticator(Options(authorization=authorization)).authenticate(connect, STANDARD)
    assert isinstance(verdict, NeedsPasswordCheck)
    assert verdict.job() and isinstance(verdict.resume(True), Granted) and isinstance(verdict.resume(False), Denied)


# --- users ------------------------------------------------------------------------------------------------------------


def test_users_bring_their_account_and_permissions() -> None:
    permissions = PermissionsOptions(publish=SubjectPermissionOptions(allow=("foo",)))
    user = UserOptions(user="b", password="q", permissions=permissions)
    options = Options(accounts=(_account("A", ALICE), _account("B", user)))
    assert _identity(options, _password("a", "p")).account == "A"
    identity = _identity(options, _password("b", "q"))
    assert identity.account == "B" and identity.permissions is not None
    assert identity.permissions.may_publish(b"foo") and not identity.permissions.may_publish(b"bar")
    for connect in (_password("a", "q"), _password("c", "p"), _password("", "p"), Connect(auth_token="p"), ANONYMOUS):
        assert _refused(options, connect)


def test_a_user_without_password_cannot_come_by_name() -> None:
    """S1: certificate users could log in by name with an empty password on another listener."""
    options = Options(authorization=_users(ALICE, UserOptions(user="n")))
    for connect in (Connect(user="n"), _password("n", ""), _password("n", "x")):
        assert _refused(options, connect)


ANY_CREDENTIALS = {
    "user in $G": Options(authorization=_users(ALICE)),
    "user in an account": Options(accounts=(_account("A", ALICE),)),
    "nkey user": Options(authorization=_users(UserOptions(nkey=NKEY))),
    "single user": Options(authorization=AuthorizationOptions(user="x", password="y", defined=True)),
    "single token": Options(authorization=AuthorizationOptions(token="t", defined=True)),
    "system users and an empty block": Options(
        accounts=(_account("$SYS", ALICE),), authorization=AuthorizationOptions(defined=True)
    ),
    "system users and a token": Options(
        accounts=(_account("$SYS", ALICE),), authorization=AuthorizationOptions(token="t", defined=True)
    ),
    "system users and other users": Options(accounts=(_account("$SYS", ALICE), _account("A", UserOptions("b", "q")))),
    "system users and another account": Options(accounts=(_account("$SYS", ALICE), _account("A"))),
    "named system account and users in $G": Options(
        accounts=(_account("SYS", ALICE),), system_account="SYS", authorization=_users(UserOptions("b", "q"))
    ),
    "operator": Options(operator=("eyJ",)),
    "trusted keys": Options(trusted_keys=("O",)),
}


@pytest.mark.parametrize("options", ANY_CREDENTIALS.values(), ids=ANY_CREDENTIALS.keys())
def test_nobody_comes_in_without_credentials_where_there_are_some(options: Options) -> None:
    """CVE-2023-47090: an accounts block with system users beside an authorization block let everybody in."""
    authenticator = Authenticator(options)
    assert authenticator.auth_required and not authenticator.accepts_anonymous()
    for connect in (
        ANONYMOUS,
        _password("", ""),
        Connect(jwt="eyJ"),
        Connect(sig="x"),
        Connect(nkey="", auth_token=""),
    ):
        assert _refused(options, connect)
        assert _refused(options, connect, WEBSOCKET)


@pytest.mark.parametrize(
    "options",
    [
        Options(accounts=(_account("$SYS", ALICE),)),
        Options(accounts=(_account("SYS", ALICE),), system_account="SYS"),
    ],
)
def test_system_users_alone_do_not_close_the_global_account(options: Options) -> None:
    authenticator = Authenticator(options)
    assert authenticator.auth_required and authenticator.accepts_anonymous()
    assert _identity(options, ANONYMOUS).account == "$G"
    assert _identity(options, _password("a", "p")).account == options.system_account_name
    for connect in (_password("b", "p"), _password("a", ""), _password("", "p"), Connect(auth_token="x")):
        assert _refused(options, connect)


# --- no_auth_user -----------------------------------------------------------------------------------------------------


def test_no_auth_user_is_for_those_without_any_credentials() -> None:
    options = Options(accounts=(_account("A", ALICE),), no_auth_user="a")
    authenticator = Authenticator(options)
    assert not authenticator.auth_required and authenticator.accepts_anonymous()
    identity = _identity(options, ANONYMOUS)
    assert (identity.user, identity.account, identity.means) == ("a", "A", "anonymous")
    for connect in (_password("a", ""), _password("", "p"), Connect(auth_token="x"), _password("zz", "p")):
        assert _refused(options, connect)


def test_no_auth_user_may_be_an_nkey_or_have_no_password() -> None:
    options = Options(authorization=_users(UserOptions(nkey=NKEY)), no_auth_user=NKEY)
    assert _identity(options, ANONYMOUS).user == NKEY
    assert _refused(options, Connect(nkey=NKEY)), "as itself it has to sign"
    assert _identity(Options(authorization=_users(UserOptions(user="n")), no_auth_user="n"), ANONYMOUS).user == "n"


RESTRICTED = {"allowed_connection_types": ("WEBSOCKET",)}
WAYS_IN = {
    "password": (Options(authorization=_users(UserOptions("a", "p", **RESTRICTED))), _password("a", "p"), STANDARD),
    "bcrypt": (Options(authorization=_users(UserOptions("a", HASH, **RESTRICTED))), _password("a", "p"), STANDARD),
    "nkey": (
        Options(authorization=_users(UserOptions(nkey=NKEY, **RESTRICTED))),
        Connect(nkey=NKEY, sig=_sign()),
        STANDARD,
    ),
    "no_auth_user": (
        Options(authorization=_users(UserOptions("a", "p", **RESTRICTED)), no_auth_user="a"),
        ANONYMOUS,
        STANDARD,
    ),
    "no_auth_user by nkey": (
        Options(authorization=_users(UserOptions(nkey=NKEY, **RESTRICTED)), no_auth_user=NKEY),
        ANONYMOUS,
        STANDARD,
    ),
    "certificate": (
        Options(
            authorization=_users(UserOptions("CN=a", **RESTRICTED)),
            tls=TLSOptions(verify_and_map=True),
            websocket=WebsocketOptions(tls=TLSOptions(verify_and_map=True)),
        ),
        ANONYMOUS,
        PeerFacts(certificate=PeerCertificate(subject=((("CN", "a"),),)), nonce=NONCE),
    ),
}


@pytest.mark.parametrize(("options", "connect", "peer"), WAYS_IN.values(), ids=WAYS_IN.keys())
def test_connection_types_hold_on_every_way_in(options: Options, connect: Connect, peer: PeerFacts) -> None:
    """Advisory 2026-24: no_auth_user ignored the connection types of its user."""
    assert _refused(options, connect, peer)
    websocket = PeerFacts(kind="WEBSOCKET", nonce=peer.nonce, certificate=peer.certificate)
    assert _identity(options, connect, websocket).kind == "WEBSOCKET"
    for kind in ("IN_PROCESS", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS"):
        assert _refused(options, connect, PeerFacts(kind=kind, nonce=peer.nonce, certificate=peer.certificate))


# --- nkeys ------------------------------------------------------------------------------------------------------------


def test_nkey_users_sign_the_nonce_of_their_connection() -> None:
    options = Options(accounts=(_account("A", UserOptions(nkey=NKEY)),))
    assert Authenticator(options).needs_nonce
    identity = _identity(options, Connect(nkey=NKEY, sig=_sign()))
    assert (identity.user, identity.account, identity.means) == (NKEY, "A", "nkey")
    assert _refused(options, Connect(nkey=NKEY, sig=_sign(b"a nonce of another connection")))
    assert _refused(options, Connect(nkey=NKEY))
    assert _refused(options, Connect(nkey=NKEY, sig="%%%"))
    assert _refused(options, Connect(nkey=NKEY[:-1], sig=_sign()))
    assert _refused(options, Connect(nkey=NKEY, sig=_sign(b"")), PeerFacts(nonce=b"")), "no nonce was sent"


def test_an_nkey_wins_over_a_password_and_is_ignored_without_nkey_users() -> None:
    both = Options(authorization=_users(ALICE, UserOptions(nkey=NKEY)))
    assert _refused(both, Connect(user="a", password="p", nkey=NKEY))
    assert _identity(both, Connect(user="a", password="p")).user == "a"
    assert _identity(Options(authorization=_users(ALICE)), Connect(user="a", password="p", nkey=NKEY)).user == "a"


# --- certificates -----------------------------------------------------------------------------------------------------

MAPPED = Options(
    authorization=_users(UserOptions("CN=a"), UserOptions("CN=b", "p")), tls=TLSOptions(verify_and_map=True)
)


def _certified(name: str) -> PeerFacts:
    return PeerFacts(certificate=PeerCertificate(subject=((("CN", name),),)))


def test_certificates_map_to_users() -> None:
    identity = _identity(MAPPED, ANONYMOUS, _certified("a"))
    assert (identity.user, identity.means) == ("CN=a", "certificate")
    assert _refused(MAPPED, ANONYMOUS, _certified("nobody"))
    assert _refused(MAPPED, ANONYMOUS, STANDARD), "no certificate"
    assert _refused(MAPPED, Connect(user="CN=a"), STANDARD)


def test_a_password_of_a_certificate_user_is_asked_for_as_well() -> None:
    assert _refused(MAPPED, ANONYMOUS, _certified("b"))
    assert _identity(MAPPED, Connect(password="p"), _certified("b")).user == "CN=b"
    assert _refused(MAPPED, Connect(password="x"), _certified("a"))


def test_certificates_of_one_listener_do_not_open_another() -> None:
    """CVE-2025-68121: identities are per listener."""
    assert _refused(MAPPED, ANONYMOUS, PeerFacts(kind="WEBSOCKET", certificate=_certified("a").certificate))
    only_websocket = Options(
        authorization=_users(UserOptions("CN=a")),
        tls=TLSOptions(verify=True),
        websocket=WebsocketOptions(tls=TLSOptions(verify_and_map=True)),
    )
    assert _refused(only_websocket, ANONYMOUS, _certified("a"))
    assert _refused(only_websocket, Connect(user="CN=a"), _certified("a"))


# --- websocket --------------------------------------------------------------------------------------------------------


def test_a_websocket_block_with_credentials_asks_for_those() -> None:
    options = Options(
        authorization=AuthorizationOptions(user="x", password="y", defined=True),
        websocket=WebsocketOptions(token="wt"),
    )
    assert _identity(options, Connect(auth_token="wt"), WEBSOCKET).means == "token"
    assert _refused(options, _password("x", "y"), WEBSOCKET)
    assert _refused(options, Connect(auth_token="wt"), STANDARD)
    assert _identity(options, _password("x", "y"), STANDARD).user == "x"


def test_a_websocket_block_can_close_an_otherwise_open_server() -> None:
    options = Options(websocket=WebsocketOptions(user="w", password="p"))
    authenticator = Authenticator(options)
    assert not authenticator.auth_required and authenticator.is_auth_announced("WEBSOCKET")
    assert authenticator.accepts_anonymous() and not authenticator.accepts_anonymous("WEBSOCKET")
    assert _refused(options, ANONYMOUS, WEBSOCKET)
    assert _identity(options, _password("w", "p"), WEBSOCKET).user == "w"
    assert _identity(options, ANONYMOUS, STANDARD).account == "$G"


def test_a_websocket_block_has_its_own_no_auth_user() -> None:
    options = Options(authorization=_users(ALICE), websocket=WebsocketOptions(no_auth_user="a"))
    assert _identity(options, ANONYMOUS, WEBSOCKET).user == "a"
    assert _refused(options, ANONYMOUS, STANDARD)


# --- proxies, callout, operator mode ----------------------------------------------------------------------------------


def test_proxies_sign_the_nonce() -> None:
    options = Options(authorization=_users(UserOptions("a", "p", proxy_required=True)), trusted_proxies=(NKEY,))
    assert Authenticator(options).needs_nonce
    assert _refused(options, _password("a", "p"))
    assert _identity(options, Connect(user="a", password="p", proxy_sig=_sign())).user == "a"
    assert _refused(options, Connect(user="a", password="p", proxy_sig=_sign(b"other")))
    unrestricted = Options(authorization=_users(ALICE), trusted_proxies=(NKEY,))
    assert _refused(unrestricted, Connect(user="a", password="p", proxy_sig=_sign(b"other"))), (
        "a bad one is never ignored"
    )


def test_a_required_proxy_holds_for_single_credentials_too() -> None:
    options = Options(authorization=AuthorizationOptions(token="t", proxy_required=True, defined=True))
    assert _refused(options, Connect(auth_token="t"))


def _with_callout(**more: Any) -> Options:
    callout = AuthCalloutOptions(issuer="A", auth_users=("a",), **more)
    return Options(
        authorization=AuthorizationOptions(users=(ALICE, UserOptions("b", "q")), auth_callout=callout, defined=True),
        accounts=(_account("X", UserOptions("x", "x")),),
    )


def test_a_callout_decides_about_all_but_its_own_users() -> None:
    options = _with_callout()
    assert _identity(options, _password("a", "p")).user == "a"
    assert _refused(options, _password("a", "wrong"))
    for connect in (_password("b", "q"), _password("x", "x"), _password("nobody", ""), ANONYMOUS, Connect(jwt="eyJ")):
        assert isinstance(_decide(options, connect, STANDARD), NeedsCallout)
    assert not Authenticator(options).accepts_anonymous()


def test_nobody_is_a_user_of_the_callout_by_saying_so() -> None:
    connect = Connect(user="b", password="q", nkey="a")
    assert isinstance(_decide(_with_callout(), connect, STANDARD), NeedsCallout)


def test_a_callout_does_not_decide_for_other_accounts_than_allowed() -> None:
    options = _with_callout(allowed_accounts=("Y",))
    assert _identity(options, _password("x", "x")).account == "X"
    assert isinstance(_decide(options, _password("x", "wrong"), STANDARD), NeedsCallout)
    assert isinstance(_decide(options, _password("b", "q"), STANDARD), NeedsCallout)


def test_only_the_server_asks_a_callout() -> None:
    permissions = _identity(_with_callout(), _password("a", "p")).permissions
    assert permissions is not None
    assert not permissions.may_publish(b"$SYS.REQ.USER.AUTH") and permissions.may_publish(b"foo")


def test_operator_mode_is_decided_by_its_verifier_alone() -> None:
    class Verifier:
        def authenticate(self, credentials: Credentials, peer: PeerFacts, *, proxied: bool) -> Verdict:
            assert peer is STANDARD
            assert not proxied
            return Granted(Identity("u", "ACCOUNT", means="jwt")) if credentials.jwt == "good" else Denied("bad jwt")

    options = Options(trusted_keys=("O",), authorization=_users(ALICE))
    authenticator = Authenticator(options, Verifier())
    assert authenticator.needs_nonce and authenticator.auth_required
    assert isinstance(authenticator.authenticate(Connect(jwt="good"), STANDARD), Granted)
    assert isinstance(authenticator.authenticate(_password("a", "p"), STANDARD), Denied)
    assert _refused(options, Connect(jwt="good")), "without a verifier nobody comes in"


# --- reload -----------------------------------------------------------------------------------------------------------

BEFORE = Options(
    accounts=(_account("A", ALICE, UserOptions(nkey=NKEY), UserOptions("CN=a")),),
    no_auth_user="a",
    tls=None,
)


def _after(options: Options, identity: Identity) -> Identity | None:
    return Authenticator(options).current(identity)


def test_an_unchanged_user_stays_and_gets_new_permissions() -> None:
    identity = _identity(BEFORE, _password("a", "p"))
    assert _after(BEFORE, identity) == identity
    permissions = PermissionsOptions(publish=SubjectPermissionOptions(deny=("x",)))
    narrowed = Options(accounts=(_account("A", UserOptions("a", "p", permissions=permissions)),))
    renewed = _after(narrowed, identity)
    assert renewed is not None and renewed.permissions is not None and not renewed.permissions.may_publish(b"x")


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(accounts=(_account("A", UserOptions("a", "changed")),)),
        Options(accounts=(_account("B", ALICE),)),
        Options(accounts=(_account("A", UserOptions("a", "p", allowed_connection_types=("MQTT",))),)),
        Options(operator=("eyJ",)),
    ],
)
def test_a_changed_user_has_to_leave(options: Options) -> None:
    assert _after(options, _identity(BEFORE, _password("a", "p"))) is None


def test_every_way_in_is_looked_up_again_its_own_way() -> None:
    anonymous, by_nkey = _identity(BEFORE, ANONYMOUS), _identity(BEFORE, Connect(nkey=NKEY, sig=_sign()))
    assert _after(BEFORE, anonymous) == anonymous and _after(BEFORE, by_nkey) == by_nkey
    without = Options(accounts=(_account("A", ALICE),))
    assert _after(without, anonymous) is None and _after(without, by_nkey) is None
    certified = _identity(MAPPED, ANONYMOUS, _certified("a"))
    assert _after(MAPPED, certified) == certified
    assert _after(Options(authorization=MAPPED.authorization), certified) is None
    token = Options(authorization=AuthorizationOptions(token="t", defined=True))
    by_token = _identity(token, Connect(auth_token="t"))
    assert _after(token, by_token) == by_token
    assert _after(Options(authorization=AuthorizationOptions(token="u", defined=True)), by_token) is None
    single = Options(authorization=AuthorizationOptions(user="x", password="y", defined=True))
    by_single = _identity(single, _password("x", "y"))
    assert _after(single, by_single) == by_single and _after(token, by_single) is None
    open_identity = _identity(Options(), ANONYMOUS)
    assert _after(Options(), open_identity) == open_identity and _after(token, open_identity) is None
