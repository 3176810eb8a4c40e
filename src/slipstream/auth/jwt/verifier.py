"""Who is this client, in operator mode? The token of a user, the account behind it, the operator behind that.

    authenticate ──► Granted(identity) | Denied(reason) | NeedsAccount(name) | NeedsCallout(account, ...)

Every check of nats-server, in its order: the token itself; the account and who vouches for it; the key that signed and
the scope it gives; expiry; bearer tokens; kind of connection; the signed nonce; revocation; network and time of day.
`present` asks the same again about somebody who is connected, when the account has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from slipstream.auth.identity import PROXY_REQUIRED, Denied, Granted, Identity, NeedsAccount, NeedsCallout, TokenLogin
from slipstream.auth.jwt.checks import user_findings
from slipstream.auth.jwt.findings import blocks
from slipstream.auth.jwt.rights import clamped, is_revoked, permissions_of
from slipstream.auth.jwt.templates import UserTemplateError, fill
from slipstream.auth.jwt.token import InvalidToken, decode_user
from slipstream.auth.jwt.windows import is_from, remaining_ns
from slipstream.auth.nkeys import verify
from slipstream.auth.permissions import Permissions
from slipstream.config.record import replace
from slipstream.errors import ConfigError
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.auth.identity import Credentials, PeerFacts
    from slipstream.auth.jwt.claims import AccountClaims, RightsClaim, Scope, UserClaims
    from slipstream.auth.jwt.trust import Trust
    from slipstream.auth.jwt.windows import Zones
    from slipstream.config.account_options import PermissionsOptions
    from slipstream.config.options import Options

__all__ = ["Accounts", "Departure", "TokenVerifier"]

_KINDS = frozenset(["STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"])


class Accounts(Protocol):
    """The accounts that are known."""

    def claims_of(self, name: str) -> AccountClaims | None:
        """The claims of an account that may be used now."""
        ...


class TokenVerifier:
    """Decides about users with tokens, under one configuration."""

    def __init__(
        self, options: Options, trust: Trust, accounts: Accounts, now_ns: Callable[[], int], zones: Zones
    ) -> None:
        self._sentinel = options.default_sentinel
        pinned = options.resolver_pinned_accounts
        self._pinned = frozenset((*pinned, options.system_account)) if pinned else None
        self._trust = trust
        self._accounts = accounts
        self._now_ns = now_ns
        self._zones = zones
        self.pinned_refusals = 0  # users whose account is not one of those that are pinned

    def authenticate(
        self, credentials: Credentials, peer: PeerFacts, *, proxied: bool
    ) -> Granted | Denied | NeedsAccount | NeedsCallout:
        """Decide about one CONNECT."""
        try:
            text, user = self._user(credentials)
        except InvalidToken as error:
            return Denied(str(error))
        if user.nats.proxy_required and not proxied:
            return PROXY_REQUIRED
        now_ns = self._now_ns()
        if blocks(user_findings(user, now_ns // SECOND_NS, self._zones), with_time=True):
            return Denied("User JWT no longer valid")
        if self._pinned is not None and user.account not in self._pinned:
            self.pinned_refusals += 1
            return Denied(f"Account {user.account} not listed as operator pinned account")
        account = self._accounts.claims_of(user.account)
        if account is None:
            return NeedsAccount(user.account)
        try:
            rights = self._rights(user, account)
            if rights.proxy_required and not proxied:
                return PROXY_REQUIRED
            self._check(user, rights, account, credentials, peer)
            left_ns = remaining_ns(rights, now_ns, self._zones)
            if left_ns is None:
                raise _Refused("Outside connect times")
            until_ns = [user.exp * SECOND_NS] if user.exp else []
            until_ns += [now_ns + left_ns] if left_ns else []
            identity = self._identity(user, text, rights, account, peer, min(until_ns, default=0))
            auth_users = account.nats.authorization.auth_users
            if auth_users and user.sub not in auth_users:
                return _callout(identity, credentials, proxied=proxied)
            return Granted(identity)
        except (_Refused, UserTemplateError) as refusal:
            return Denied(str(refusal))
        except ConfigError as refusal:
            return Denied(refusal.message)

    def _user(self, credentials: Credentials) -> tuple[str, UserClaims]:
        """The token that counts, and what it says."""
        text = credentials.jwt or ""
        if not self._sentinel:
            if not text:
                raise InvalidToken("Authentication requires a user JWT")
            return text, decode_user(text)
        try:
            return text, decode_user(text)
        except InvalidToken:
            return self._sentinel, decode_user(self._sentinel)

    def _rights(self, user: UserClaims, account: AccountClaims) -> RightsClaim:
        """What the user may do: as the token says, or as the scope of the key that signed it says."""
        if account.iss not in self._trust.keys:
            raise _Refused("Account JWT not signed by trusted operator")
        keys = account.nats.signing_keys
        own_key = user.iss == account.sub and account.iss not in self._trust.strict
        if user.iss not in keys and not own_key:
            raise _Refused("User JWT issuer is not known")
        scope = _scope_of(user, account)
        if scope is None:
            return user.nats
        if not user.nats.names_nothing():
            raise _Refused("User JWT is not valid: scoped users require no permissions or limits set")
        return fill(scope.template, user, account)

    def _check(
        self, user: UserClaims, rights: RightsClaim, account: AccountClaims, credentials: Credentials, peer: PeerFacts
    ) -> None:
        if rights.bearer_token and account.nats.limits.disallow_bearer:
            raise _Refused("Account does not allow bearer tokens")
        named = [kind.upper() for kind in rights.allowed_connection_types or ()]
        if named and peer.kind not in _KINDS.intersection(named):
            raise _Refused("Connection type not allowed")
        if not rights.bearer_token:
            if not credentials.sig:
                raise _Refused("Signature missing")
            if not peer.nonce or not verify(user.sub, None, peer.nonce, credentials.sig):
                raise _Refused("Signature not verified")
        if is_revoked(account.nats.revocations, user.sub, user.iat):
            raise _Refused("User authentication revoked")
        if not is_from(rights.src, peer.ip):
            raise _Refused(f"Bad src Ip {peer.ip}")

    def _identity(
        self, user: UserClaims, text: str, rights: RightsClaim, account: AccountClaims, peer: PeerFacts, until_ns: int
    ) -> Identity:
        options = permissions_of(rights)
        login = TokenLogin(
            user,
            text,
            max_payload=clamped(rights.payload),
            max_subscriptions=clamped(rights.subs),
            until_ns=until_ns,
            own_rights=options is not None,
            scope=_scope_of(user, account),
            is_bearer=rights.bearer_token,
        )
        return Identity(
            user=user.sub,
            account=account.sub,
            permissions=_compiled(options or permissions_of(account.nats.default_permissions), account),
            kind=peer.kind,
            means="jwt",
            token=login,
        )

    def called_out(self, user: UserClaims, account: AccountClaims) -> RightsClaim:
        """What a user that an auth callout lets into an account may do there.

        Raises:
            CalloutRefusal: the account does not know who signed, or takes no such user.
        """
        from slipstream.auth.callout.response import CalloutRefusal

        try:
            rights = self._rights(user, account)
        except _Refused as refusal:
            raise CalloutRefusal(str(refusal)) from None
        except UserTemplateError as refusal:
            raise CalloutRefusal(f"user JWT generated invalid permissions: {refusal}") from None
        if is_revoked(account.nats.revocations, user.sub, user.iat):
            raise CalloutRefusal("user authentication revoked")
        return rights

    def present(self, identity: Identity, account: AccountClaims) -> Identity | Departure:
        """The same client under the present token of its account, or why it has to go."""
        login = identity.token
        assert login is not None
        user = login.claims
        if login.is_bearer and account.nats.limits.disallow_bearer:
            return Departure("violation")
        if is_revoked(account.nats.revocations, user.sub, user.iat):
            return Departure("revoked")
        if user.nats.issuer_account:
            keys = account.nats.signing_keys
            if user.iss not in keys and user.iss != account.sub:
                return Departure("signer")
            if keys.get(user.iss) != login.scope:
                return Departure("signer")
        if login.own_rights:
            return identity
        try:
            permissions = _compiled(permissions_of(account.nats.default_permissions), account)
        except ConfigError:
            return Departure("violation")
        return replace(identity, permissions=permissions)


def _scope_of(user: UserClaims, account: AccountClaims) -> Scope | None:
    """The scope that holds for a user: only who names the account as another issuer than his own can have one."""
    return account.nats.signing_keys.get(user.iss) if user.nats.issuer_account else None


def _compiled(permissions: PermissionsOptions | None, account: AccountClaims) -> Permissions | None:
    """The permissions of a user of an account, which may have an auth callout."""
    if account.nats.authorization.auth_users:
        return Permissions.without_callout(permissions)
    return Permissions.compile(permissions)


def _callout(identity: Identity, credentials: Credentials, *, proxied: bool) -> NeedsCallout:
    assert identity.token is not None
    nkey, user = credentials.nkey or "", credentials.user or ""
    return NeedsCallout(
        account=identity.account,
        user=user,
        password=credentials.password or "",
        auth_token=credentials.auth_token or "",
        nkey=nkey,
        sig=credentials.sig or "",
        jwt=identity.token.text,
        shown_user=nkey or user or identity.user,
        proxied=proxied,
        token=identity.token,
    )


class Departure:
    """Why somebody who is connected may not stay: `revoked`, `violation`, or `signer` (the key that signed)."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class _Refused(Exception):
    """The client may not come in."""
