"""Who is this client? Credentials and facts about the connection in, an identity or a refusal out.

    authenticate ──► Granted(identity)
                 ──► Denied(reason)
                 ──► NeedsPasswordCheck(job, resume)
                 ──► NeedsCallout(account, who it says it is)
                 ──► NeedsIssuer(token)

What decides, in nats-server's order: the trusted proxy's signature; operator mode; whether the listener asks at all;
nkeys; users, by certificate (verify_and_map), as `no_auth_user`, or by password; at last the single token or user.
Every way to a configured login ends in `_admit`, where connection type and proxy are checked: none can forget them.

With an auth callout that is only a first opinion: its own users (`auth_users`) come in by it alone, and so do users of
accounts that it does not decide for; everybody else is the callout's to judge, known here or not.

Differences from nats-server, all on the safe side: an empty password never matches, and whether a client is one of the
`auth_users` is decided by who it proved to be, not by a name in CONNECT that nobody looked at.

A token of an OpenID issuer that the configuration names is that issuer's to judge, before all users; see `auth/oidc`.

What it is not: enforcement after the login. It keeps no state between logins; a reload makes a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.auth.identity import (
    PROXY_NOT_TRUSTED,
    PROXY_REQUIRED,
    ConnectionKind,
    Credentials,
    Denied,
    Granted,
    Identity,
    JwtVerifier,
    Means,
    NeedsAccount,
    NeedsCallout,
    NeedsIssuer,
    NeedsPasswordCheck,
    PeerFacts,
    Verdict,
)
from slipstream.auth.nkeys import KeyKind, verify
from slipstream.auth.password import BcryptCheck, check
from slipstream.auth.users import Login, UserTable, permissions_in
from slipstream.config.options import GLOBAL_ACCOUNT
from slipstream.config.record import Record

if TYPE_CHECKING:
    from slipstream.auth.oidc.logins import OpenIdRules
    from slipstream.auth.tls_map import CertificateUsers
    from slipstream.config.options import Options

__all__ = [
    "Authenticator",
    "ConnectionKind",
    "Credentials",
    "Denied",
    "Granted",
    "Identity",
    "JwtVerifier",
    "NeedsAccount",
    "NeedsCallout",
    "NeedsIssuer",
    "NeedsPasswordCheck",
    "PeerFacts",
    "Verdict",
]

# Shown instead of a token wherever a user name is shown.
_REDACTED = "[REDACTED]"


class _Listener(Record):
    """What one kind of listener asks for, beside the users of the table."""

    user: Login | None  # the single user of its authorization block
    token: Login | None
    no_auth_user: str
    maps_certificates: bool


class Authenticator:
    """Decides about logins under one configuration."""

    def __init__(self, options: Options, jwt: JwtVerifier | None = None) -> None:
        """Compile the users.

        Args:
            options: the configuration.
            jwt: who decides in operator mode; without it, such a server lets nobody in.

        Raises:
            ConfigError: a permission of some user cannot be understood.
        """
        self._jwt = jwt
        self._operator_mode = options.trusts_operators
        self._table = UserTable(options)
        self._callout = options.authorization.auth_callout
        self._trusted_proxies = options.trusted_proxies
        self._nameless: dict[ConnectionKind, Granted] = {}  # who is let in without a name
        self.openid: OpenIdRules | None = None
        if options.authorization.oidc:
            from slipstream.auth.oidc.logins import OpenIdRules

            self.openid = OpenIdRules(options)
        # nats-server lets everybody into the global account when the only users are the system account's.
        self._only_system_users = _has_only_system_users(options)

        authorization, websocket = options.authorization, options.websocket
        self._standard = _Listener(
            user=_single_user(authorization.user, authorization.password, options),
            token=_single_token(authorization.token, options),
            no_auth_user=options.no_auth_user,
            maps_certificates=options.tls is not None and options.tls.verify_and_map,
        )
        # A websocket block with credentials of its own asks for those instead; its certificates are always its own.
        self._websocket_has_own = bool(websocket.user or websocket.token or websocket.no_auth_user)
        maps_certificates = websocket.tls is not None and websocket.tls.verify_and_map
        if self._websocket_has_own:
            self._websocket = _Listener(
                user=_single_user(websocket.user, websocket.password, options),
                token=_single_token(websocket.token, options),
                no_auth_user=websocket.no_auth_user,
                maps_certificates=maps_certificates,
            )
        else:
            standard = self._standard
            self._websocket = _Listener(standard.user, standard.token, standard.no_auth_user, maps_certificates)
        # Leaf nodes ask as the client port does; their certificates are their own.
        tls = options.leafnodes.tls
        standard, maps_leafs = self._standard, tls is not None and tls.verify_and_map
        self._leafs = _Listener(standard.user, standard.token, standard.no_auth_user, maps_leafs)
        self._certificate_users: CertificateUsers[Login] | None = None
        if self._standard.maps_certificates or maps_certificates or maps_leafs:
            from slipstream.auth.tls_map import CertificateUsers

            self._certificate_users = CertificateUsers(self._table.users)

    @property
    def auth_required(self) -> bool:
        """What INFO says on the client port."""
        return self.is_auth_announced("STANDARD")

    @property
    def needs_nonce(self) -> bool:
        """Whether INFO has to carry a nonce to sign."""
        return bool(self._table.nkeys or self._operator_mode or self._trusted_proxies)

    def is_auth_announced(self, kind: ConnectionKind) -> bool:
        """What INFO says on a listener of this kind; a `no_auth_user` makes the client port keep silent."""
        return self._asks(kind) and (kind == "WEBSOCKET" or not self._standard.no_auth_user)

    def asks_for_credentials(self, kind: ConnectionKind) -> bool:
        """Whether a listener of this kind asks, announced or not."""
        return self._asks(kind)

    def accepts_anonymous(self, kind: ConnectionKind = "STANDARD") -> bool:
        """Whether a client without credentials has a chance, and so may begin without CONNECT."""
        return not self._operator_mode and (
            not self._asks(kind) or bool(self._listener(kind).no_auth_user) or self._only_system_users
        )

    def authenticate(self, credentials: Credentials, peer: PeerFacts) -> Verdict:
        """Decide about one CONNECT."""
        if credentials.account or credentials.new_account:
            return Denied("a client cannot choose its account")
        proxied = self.is_proxied(credentials, peer)
        if proxied is None:
            return PROXY_NOT_TRUSTED
        if self._operator_mode:
            return (
                self._jwt.authenticate(credentials, peer, proxied=proxied)
                if self._jwt
                else Denied("operator mode is not available")
            )
        if not self._asks(peer.kind):
            return self._open(credentials, peer.kind)
        if self.openid is not None:
            asked = self.openid.asked(credentials, peer, proxied=proxied)
            if asked is not None:
                return asked
        verdict = self._by_nkey(credentials, peer, proxied) or self._by_user(credentials, peer, proxied)
        return verdict if self._callout is None else self._or_callout(verdict, credentials, peer, proxied)

    def is_proxied(self, credentials: Credentials, peer: PeerFacts) -> bool | None:
        """Whether a trusted proxy vouches for a connection; None: a proxy does that is not trusted."""
        if not credentials.proxy_sig or not self._trusted_proxies:
            return False
        return bool(self.proxy_of(credentials, peer)) or None

    def proxy_of(self, credentials: Credentials, peer: PeerFacts) -> str:
        """The key of the trusted proxy that vouches for a client; empty if none does."""
        keys = self._trusted_proxies if credentials.proxy_sig else ()
        return next((key for key in keys if _signed(key, None, credentials.proxy_sig, peer)), "")

    def trusts_proxy(self, key: str) -> bool:
        """Whether the clients of a proxy may stay."""
        return key in self._trusted_proxies

    def _or_callout(self, verdict: Verdict, credentials: Credentials, peer: PeerFacts, proxied: bool) -> Verdict:
        """The verdict if it is final, or whom to ask."""
        callout = self._callout
        assert callout is not None
        if isinstance(verdict, NeedsPasswordCheck):
            check = verdict

            def resume(matched: bool) -> Granted | Denied | NeedsCallout:
                final = self._or_callout(check.resume(matched), credentials, peer, proxied)
                assert isinstance(final, Granted | Denied | NeedsCallout)
                return final

            return NeedsPasswordCheck(check.job, resume)
        login = None
        if isinstance(verdict, Granted):
            login, account = verdict.identity.login, verdict.identity.account
            # Users that nobody configured are in the global account, so that is always the callout's.
            elsewhere = account != GLOBAL_ACCOUNT and callout.allowed_accounts
            if (elsewhere and account not in callout.allowed_accounts) or (login and login.name in callout.auth_users):
                return verdict
        claimed = self._claimed(login, verdict, credentials, peer, proxied)
        # Somebody without a proxy must not come in whatever a service says; its own users are not asked about.
        if verdict is PROXY_REQUIRED or (login is None and claimed.shown_user in callout.auth_users):
            return verdict
        return claimed

    def _claimed(
        self, login: Login | None, verdict: Verdict, credentials: Credentials, peer: PeerFacts, proxied: bool
    ) -> NeedsCallout:
        """Who a client says it is, with what the configuration says for those who say nothing."""
        nkey, user, password = credentials.nkey or "", credentials.user or "", credentials.password or ""
        listener = self._listener(peer.kind)
        if _is_anonymous(credentials):
            name = listener.no_auth_user
            if name in self._table.nkeys:
                nkey = name
            elif name in self._table.users and not listener.maps_certificates:
                user, password = name, self._table.users[name].password
        if login is not None and isinstance(verdict, Granted) and verdict.identity.means == "certificate":
            user = login.name
        assert self._callout is not None
        token = credentials.auth_token or ""
        return NeedsCallout(
            account=self._callout.account,
            user=user,
            password=password,
            auth_token=token,
            nkey=nkey,
            sig=credentials.sig or "",
            shown_user=nkey or user or (_REDACTED if token else ""),
            proxied=proxied,
        )

    def current(self, identity: Identity, *, proxied: bool = False) -> Identity | None:
        """The same client under this configuration, or None when it may not stay.

        A user keeps its connection, with the present permissions, unless it is gone or has another account, password
        or set of connection types, or has to come through a proxy now.
        """
        if identity.token is not None:
            return identity  # whoever keeps the accounts' tokens asks about it; what a callout said holds
        if identity.openid is not None:
            return None if self.openid is None else self.openid.current(identity, proxied=proxied)
        if identity.login is None:
            stays = identity.means == "open" and (not self._asks(identity.kind) or self._only_system_users)
            return identity if stays else None
        present = self._present(identity, identity.login.name)
        if (
            present is None
            or (present.account, present.password) != (identity.account, identity.login.password)
            or not present.may_use(identity.kind)
            or (present.proxy_required and not proxied)
        ):
            return None
        return _identity(present, identity.kind, identity.means)

    def _present(self, identity: Identity, name: str) -> Login | None:
        """The login that is today what `identity` came in with."""
        listener, table = self._listener(identity.kind), self._table
        match identity.means:
            case "nkey":
                return table.nkeys.get(name)
            case "anonymous":
                return (table.nkeys.get(name) or table.users.get(name)) if listener.no_auth_user == name else None
            case "certificate":
                return table.users.get(name) if listener.maps_certificates else None
            case "token":
                return listener.token
            case "password" if table.users:
                return table.users.get(name)
            case "password" if listener.user is not None and listener.user.name == name:
                return listener.user
        return None

    def _listener(self, kind: ConnectionKind) -> _Listener:
        if kind == "WEBSOCKET":
            return self._websocket
        return self._leafs if kind in ("LEAFNODE", "LEAFNODE_WS") else self._standard

    def knows(self, identity: Identity) -> bool:
        """Whether a configured user still exists, changed or not."""
        login = identity.login
        return login is None or login.name in self._table.users or login.name in self._table.nkeys

    def _asks(self, kind: ConnectionKind) -> bool:
        """Whether a listener of this kind asks for credentials at all."""
        return (
            bool(self._operator_mode or self._table or self._standard.user or self._standard.token)
            or self._callout is not None
            or self.openid is not None
            or self._only_system_users
            or (kind == "WEBSOCKET" and self._websocket_has_own)
        )

    def _open(self, credentials: Credentials, kind: ConnectionKind) -> Granted:
        """Nobody was asked, but monitoring shows what the client calls itself."""
        user = credentials.nkey or credentials.user or (_REDACTED if credentials.auth_token else "")
        if user:
            return Granted(Identity(user, GLOBAL_ACCOUNT, kind=kind))
        granted = self._nameless.get(kind)
        if granted is None:
            granted = self._nameless[kind] = Granted(Identity("", GLOBAL_ACCOUNT, kind=kind))
        return granted

    def _by_nkey(self, credentials: Credentials, peer: PeerFacts, proxied: bool) -> Verdict | None:
        """Decide by nkey; None when that is not how this client comes."""
        nkeys, no_auth_user = self._table.nkeys, self._listener(peer.kind).no_auth_user
        if no_auth_user in nkeys and _is_anonymous(credentials):
            return self._admit(nkeys[no_auth_user], peer, "anonymous", proxied)
        if not nkeys or not credentials.nkey:
            return None
        login = nkeys.get(credentials.nkey)
        if login is None:
            return Denied("unknown nkey")
        if not _signed(login.name, KeyKind.USER, credentials.sig, peer):
            return Denied("signature not verified")
        return self._admit(login, peer, "nkey", proxied)

    def _by_user(self, credentials: Credentials, peer: PeerFacts, proxied: bool) -> Verdict:
        users, listener = self._table.users, self._listener(peer.kind)
        if users and listener.maps_certificates:
            return self._by_certificate(credentials, peer, proxied)
        if _is_anonymous(credentials):
            if listener.no_auth_user in users:
                return self._admit(users[listener.no_auth_user], peer, "anonymous", proxied)
            if self._only_system_users:
                return self._open(credentials, peer.kind)
        if users and credentials.user:
            login = users.get(credentials.user)
        elif listener.token is not None:
            admitted = self._admit(listener.token, peer, "token", proxied)
            return _if_equal(listener.token.password, credentials.auth_token, admitted)
        else:
            login = listener.user if listener.user and listener.user.name == credentials.user else None
        if login is None:
            return Denied("unknown user")
        return _if_equal(login.password, credentials.password, self._admit(login, peer, "password", proxied))

    def _by_certificate(self, credentials: Credentials, peer: PeerFacts, proxied: bool) -> Verdict:
        if peer.certificate is None or self._certificate_users is None:
            return Denied("user required in certificate")
        login = self._certificate_users.find(peer.certificate, lambda user: user.may_use(peer.kind))
        if login is None:
            return Denied("user in certificate not found")
        admitted = self._admit(login, peer, "certificate", proxied)
        # A configured password is asked for as well; a password where none is configured is a mistake.
        if login.password or credentials.password:
            return _if_equal(login.password, credentials.password, admitted)
        return admitted

    def _admit(self, login: Login, peer: PeerFacts, means: Means, proxied: bool) -> Granted | Denied:
        """Apply what holds for every login, however it was found."""
        if not login.may_use(peer.kind):
            return Denied("connection type not allowed")
        if login.proxy_required and not proxied:
            return PROXY_REQUIRED
        return Granted(_identity(login, peer.kind, means))


def _is_anonymous(credentials: Credentials) -> bool:
    return not (credentials.user or credentials.password or credentials.auth_token or credentials.nkey)


def _signed(public_key: str, kind: KeyKind | None, signature: str | None, peer: PeerFacts) -> bool:
    return bool(signature and peer.nonce) and verify(public_key, kind, peer.nonce, signature or "")


def _if_equal(stored: str, given: str | None, admitted: Granted | Denied) -> Verdict:
    """What was decided, provided the password is right."""
    if isinstance(admitted, Denied):
        return admitted
    wrong = Denied("wrong password")
    matched = check(stored, given or "")
    if isinstance(matched, BcryptCheck):
        return NeedsPasswordCheck(matched, lambda answer: admitted if answer else wrong)
    return admitted if matched else wrong


def _identity(login: Login, kind: ConnectionKind, means: Means) -> Identity:
    user = _REDACTED if means == "token" else login.name
    return Identity(user, login.account, login.permissions, login, kind, means)


def _single_user(name: str, password: str, options: Options) -> Login | None:
    return _single(name, password, options) if name else None


def _single_token(token: str, options: Options) -> Login | None:
    return _single("", token, options) if token else None


def _single(name: str, password: str, options: Options) -> Login:
    return Login(
        name,
        GLOBAL_ACCOUNT,
        password,
        permissions_in(GLOBAL_ACCOUNT, None, options),
        proxy_required=options.authorization.proxy_required,
    )


def _has_only_system_users(options: Options) -> bool:
    """Whether the configuration says nothing about who may come in, except for the system account.

    CVE-2023-47090: any authorization block, even an empty one, any other account and any `no_auth_user` say something.
    """
    return (
        [account.name for account in options.accounts if account.name != GLOBAL_ACCOUNT]
        == [options.system_account_name]
        and not options.authorization.defined
        and not options.no_auth_user
        and not options.authorization.users
    )
