"""Logins by OpenID tokens under one configuration: which token is asked about, and who its owner is.

A token counts as one if it names an issuer of the configuration; then that issuer alone decides, whatever else CONNECT
says. Any other credential goes the way of all others. A client that gives itself a name has to be who the token says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.auth.identity import PROXY_REQUIRED, Denied, Granted, Identity, NeedsIssuer, OpenIdLogin
from slipstream.auth.oidc.mapping import mapped
from slipstream.auth.oidc.token import OpenIdRefusal, announced, check_addressee, end_of_token, verified
from slipstream.auth.users import permissions_in
from slipstream.config.checker import quote
from slipstream.config.options import GLOBAL_ACCOUNT
from slipstream.config.record import replace
from slipstream.errors import ConfigError

if TYPE_CHECKING:
    from slipstream.auth.identity import ConnectionKind, Credentials, PeerFacts
    from slipstream.auth.oidc.keys import IssuerKey
    from slipstream.auth.oidc.mapping import Mapped
    from slipstream.auth.permissions import Permissions
    from slipstream.config.oidc_options import OidcOptions
    from slipstream.config.options import Options

__all__ = ["OpenIdRules"]


class OpenIdRules:
    """The issuers of one configuration."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.issuers = {issuer.issuer: issuer for issuer in options.authorization.oidc}
        self._defaults = {account.name: account.default_permissions for account in options.accounts}
        self._defaults.setdefault(GLOBAL_ACCOUNT, options.authorization.default_permissions)

    def asked(self, credentials: Credentials, peer: PeerFacts, *, proxied: bool) -> NeedsIssuer | Denied | None:
        """Whether a token of one of the issuers was given, or why it cannot count; None if none was."""
        token = announced(credentials)
        issuer = None if token is None else self.issuers.get(token.issuer)
        if token is None or issuer is None:
            return None
        if token.algorithm not in issuer.algorithms:
            return Denied(f"OpenID: the algorithm {quote(token.algorithm[:32])} is not allowed")
        refused = self._entrance(issuer, peer.kind, proxied=proxied)
        return refused or NeedsIssuer(token, credentials.user or "")

    def _entrance(self, issuer: OidcOptions, kind: ConnectionKind, *, proxied: bool) -> Denied | None:
        if issuer.allowed_connection_types and kind not in issuer.allowed_connection_types:
            return Denied("connection type not allowed")
        if self._options.authorization.proxy_required and not proxied:
            return PROXY_REQUIRED
        return None

    def decided(self, needed: NeedsIssuer, key: IssuerKey, kind: ConnectionKind, now_ns: int) -> Granted | Denied:
        """Who the owner of a token is, by the key that the issuer signs with."""
        token = needed.token
        issuer = self.issuers.get(token.issuer)
        if issuer is None or token.algorithm not in issuer.algorithms:
            return Denied("OpenID: the issuer has changed")  # by a reload, while its keys were fetched
        try:
            claims = verified(token, key, issuer, now_ns)
            who = mapped(claims, issuer)
            if needed.user and needed.user != who.user:
                raise OpenIdRefusal(f"the token is that of {quote(who.user)}")
            permissions = self._permissions(who, issuer)
        except OpenIdRefusal as refusal:
            return Denied(f"OpenID: {refusal}")
        login = OpenIdLogin(token.issuer, token.algorithm, claims, end_of_token(claims, issuer))
        return Granted(Identity(who.user, who.account, permissions, kind=kind, means="oidc", openid=login))

    def _permissions(self, who: Mapped, issuer: OidcOptions) -> Permissions | None:
        """What somebody may do in the account that is his, if he may be there."""
        known = who.account in self._defaults or who.account == self._options.system_account_name
        allowed = issuer.allowed_accounts
        if not known or (allowed and who.account not in allowed):
            raise OpenIdRefusal(f"the account {quote(who.account)} is not there for this issuer")
        is_named = any(who.account == named for named in (issuer.account, *(rule.account for rule in issuer.rules)))
        if who.account == self._options.system_account_name and not allowed and not is_named:
            raise OpenIdRefusal("the system account has to be named by the configuration")
        rights = who.permissions if who.permissions is not None else self._defaults.get(who.account)
        try:
            return permissions_in(who.account, rights, self._options)
        except ConfigError as error:
            raise OpenIdRefusal(error.message) from None

    def current(self, identity: Identity, *, proxied: bool) -> Identity | None:
        """The same client under this configuration, or None when it may not stay."""
        login = identity.openid
        assert login is not None
        issuer = self.issuers.get(login.issuer)
        if issuer is None or login.algorithm not in issuer.algorithms:
            return None
        if self._entrance(issuer, identity.kind, proxied=proxied) is not None:
            return None
        try:
            # The token was good when it came, and its end is known: only what the configuration says is new.
            check_addressee(login.claims, issuer)
            who = mapped(login.claims, issuer)
            permissions = self._permissions(who, issuer)
        except OpenIdRefusal:
            return None
        if (who.user, who.account) != (identity.user, identity.account):
            return None
        return replace(identity, permissions=permissions)
