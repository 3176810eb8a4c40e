"""What goes into a login and what comes out of it: credentials, facts about the peer, identity or refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from slipstream.auth.users import Login
from slipstream.config.record import Record

if TYPE_CHECKING:
    from slipstream.auth.jwt.claims import Scope, UserClaims
    from slipstream.auth.oidc.token import Announced, Claims
    from slipstream.auth.password import BcryptCheck
    from slipstream.auth.permissions import Permissions
    from slipstream.auth.tls_map import PeerCertificate

__all__ = [
    "PROXY_NOT_TRUSTED",
    "PROXY_REQUIRED",
    "ConnectionKind",
    "Credentials",
    "Denied",
    "Granted",
    "Identity",
    "JwtVerifier",
    "Means",
    "NeedsAccount",
    "NeedsCallout",
    "NeedsIssuer",
    "NeedsPasswordCheck",
    "OpenIdLogin",
    "PeerFacts",
    "TokenLogin",
    "Verdict",
]

# The words of `allowed_connection_types`.
ConnectionKind = Literal["STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"]

# How somebody came in. `open`: nobody was asked; `anonymous`: as `no_auth_user`; `callout`: a service said so;
# `oidc`: a token of an OpenID issuer did.
Means = Literal["open", "anonymous", "nkey", "certificate", "password", "token", "jwt", "callout", "oidc"]


class Credentials(Protocol):
    """The part of CONNECT that matters to a login. None and the empty string both mean: not given."""

    @property
    def user(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...
    @property
    def auth_token(self) -> str | None: ...
    @property
    def nkey(self) -> str | None: ...
    @property
    def sig(self) -> str | None: ...
    @property
    def jwt(self) -> str | None: ...
    @property
    def account(self) -> str | None: ...
    @property
    def new_account(self) -> bool | None: ...
    @property
    def proxy_sig(self) -> str | None: ...


class PeerFacts(NamedTuple):  # made for each login: a record costs eight times as much
    """What the server itself knows about a connection."""

    kind: ConnectionKind = "STANDARD"
    ip: str = ""
    nonce: bytes = b""  # as sent in INFO; empty if none was, and then no signature is valid
    certificate: PeerCertificate | None = None  # of a TLS client whose certificate was verified


class TokenLogin(Record):
    """What a token says about a user, apart from the permissions."""

    claims: UserClaims
    text: str = ""  # the token itself
    max_payload: int = -1
    max_subscriptions: int = -1
    until_ns: int = 0  # when the connection ends; 0: not by itself
    own_rights: bool = False  # permissions are the token's, not the account's defaults
    scope: Scope | None = None  # of the key that signed it
    is_bearer: bool = False


class OpenIdLogin(Record, secret=("claims",)):
    """What the token of an OpenID issuer said about a client: enough to ask again what it means after a reload."""

    issuer: str
    algorithm: str
    claims: Claims
    until_ns: int


class Identity(Record):
    """A client that was let in."""

    user: str  # as monitoring shows it: never a secret
    account: str
    permissions: Permissions | None = None  # None: no restriction
    login: Login | None = None  # what it was compared with; None if nobody was asked
    kind: ConnectionKind = "STANDARD"
    means: Means = "open"
    token: TokenLogin | None = None  # in operator mode, and when an auth callout let it in
    openid: OpenIdLogin | None = None  # when an OpenID issuer vouches for it

    @property
    def ending(self) -> TokenLogin | OpenIdLogin | None:
        """What says when the connection ends."""
        return self.token or self.openid


class Granted(Record):
    """The client may come in."""

    identity: Identity


class Denied(Record):
    """The client may not come in. The reason is for the log; the client hears the same text whatever it was."""

    reason: str
    account: str = ""  # whose auth callout said so; empty: none was asked


# Why somebody who did not come through a proxy, or came through a strange one, may not come in.
PROXY_REQUIRED: Final = Denied("proxy connection required")
PROXY_NOT_TRUSTED: Final = Denied("proxy is not trusted")


class NeedsPasswordCheck:
    """The answer depends on a slow comparison.

    `job()` blocks for tens of milliseconds or more and belongs on a worker thread, `limits.PASSWORD_CHECK_THREADS` at a
    time. Its answer is given to `resume` on the loop again, which then has nothing left to decide but yes or no.
    """

    __slots__ = ("job", "resume")

    def __init__(self, job: BcryptCheck, resume: Callable[[bool], Granted | Denied | NeedsCallout]) -> None:
        self.job = job
        self.resume = resume


class NeedsAccount(Record):
    """The answer depends on an account whose token is not here."""

    account: str


class NeedsCallout(Record, secret=("password", "auth_token", "jwt", "sig")):
    """The answer is an auth callout's: where it listens, and who the client says it is."""

    account: str
    user: str = ""
    password: str = ""
    auth_token: str = ""
    nkey: str = ""
    sig: str = ""
    jwt: str = ""
    shown_user: str = ""  # who that is in logs and monitoring: never a secret
    proxied: bool = False
    token: TokenLogin | None = None  # with which it came as far as this, in operator mode


class NeedsIssuer(Record):
    """The answer depends on the keys of an OpenID issuer."""

    token: Announced
    user: str = ""  # the name that the client gives itself


Verdict = Granted | Denied | NeedsPasswordCheck | NeedsAccount | NeedsCallout | NeedsIssuer


class JwtVerifier(Protocol):
    """The seat of operator mode: user and account JWTs, resolvers, revocations."""

    def authenticate(self, credentials: Credentials, peer: PeerFacts, *, proxied: bool) -> Verdict:
        """Decide about a client of a server with trusted operators."""
        ...
