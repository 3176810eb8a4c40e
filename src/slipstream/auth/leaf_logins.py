"""Who is this leaf node? The users of `leafnodes.authorization`, or those of everybody else where there are none.

What that block says comes first and alone, as with nats-server: a user, an nkey or some users, each bound to an
account, without permissions. Without one a leaf node logs in as a client would, and has the rights of that user; where
nobody is asked at all, it is in `leafnodes.account` or the global account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.auth.identity import PROXY_NOT_TRUSTED, PROXY_REQUIRED, Denied, Granted, Identity, NeedsPasswordCheck
from slipstream.auth.nkeys import KeyKind, verify
from slipstream.auth.password import BcryptCheck, check
from slipstream.auth.users import Login
from slipstream.config.options import GLOBAL_ACCOUNT
from slipstream.config.record import replace

if TYPE_CHECKING:
    from slipstream.auth.authenticator import Authenticator
    from slipstream.auth.identity import Credentials, Means, PeerFacts, Verdict
    from slipstream.config.options import Options

__all__ = ["LeafLogins"]


class LeafLogins:
    """Decides about leaf nodes that connect, under one configuration."""

    def __init__(self, options: Options, authenticator: Authenticator) -> None:
        leafnodes = options.leafnodes
        self._authenticator = authenticator
        self._account = leafnodes.account or GLOBAL_ACCOUNT
        self._nkey = leafnodes.nkey
        self._proxy_required = leafnodes.proxy_required
        users = {
            user.user: Login(
                user.user, user.account or GLOBAL_ACCOUNT, user.password, proxy_required=user.proxy_required
            )
            for user in leafnodes.users
        }
        if leafnodes.user:
            users = {leafnodes.user: Login(leafnodes.user, self._account, leafnodes.password)}
        self._users = users
        self._maps_certificates = bool(leafnodes.users and leafnodes.tls and leafnodes.tls.verify_and_map)

    def authenticate(self, credentials: Credentials, peer: PeerFacts) -> Verdict:
        """Decide about one CONNECT."""
        if not self._users and not self._nkey:
            verdict = self._authenticator.authenticate(credentials, peer)
            if isinstance(verdict, Granted) and verdict.identity.means == "open":
                return Granted(replace(verdict.identity, account=self._account))
            return verdict
        proxied = self._authenticator.is_proxied(credentials, peer)
        if proxied is None:
            return PROXY_NOT_TRUSTED
        if self._nkey:
            return self._by_nkey(credentials, peer, proxied=proxied)
        if self._maps_certificates:
            return self._by_certificate(peer, proxied=proxied)
        login = self._users.get(credentials.user or "")
        if login is None:
            return Denied("unknown user")
        admitted = self._admit(login, peer, "password", proxied=proxied)
        if isinstance(admitted, Denied):
            return admitted
        wrong, matched = Denied("wrong password"), check(login.password, credentials.password or "")
        if isinstance(matched, BcryptCheck):
            return NeedsPasswordCheck(matched, lambda answer: admitted if answer else wrong)
        return admitted if matched else wrong

    def still_holds(self, identity: Identity) -> bool:
        """Whether somebody that came in as this would come in as the same today, with the same rights."""
        if identity.means == "open":
            return not self._users and not self._nkey and identity.account == self._account
        if self._users or self._nkey:
            login = Login(self._nkey, self._account) if self._nkey else self._users.get(identity.user)
            return login is not None and identity.login == login
        # Whoever had to come through a proxy did.
        proxied = identity.login is not None and identity.login.proxy_required
        present = self._authenticator.current(identity, proxied=proxied)
        if present is None:
            return False
        before, after = identity.permissions, present.permissions
        return (None if before is None else before.options) == (None if after is None else after.options)

    def _by_nkey(self, credentials: Credentials, peer: PeerFacts, *, proxied: bool) -> Granted | Denied:
        if credentials.nkey != self._nkey:
            return Denied("unknown nkey")
        if not (credentials.sig and peer.nonce and verify(self._nkey, KeyKind.USER, peer.nonce, credentials.sig)):
            return Denied("signature not verified")
        return self._admit(Login(self._nkey, self._account), peer, "nkey", proxied=proxied)

    def _by_certificate(self, peer: PeerFacts, *, proxied: bool) -> Granted | Denied:
        from slipstream.auth.tls_map import CertificateUsers

        login = None
        if peer.certificate is not None:
            login = CertificateUsers(self._users).find(peer.certificate, lambda _user: True)
        if login is None:
            return Denied("user in certificate not found")
        return self._admit(login, peer, "certificate", proxied=proxied)

    def _admit(self, login: Login, peer: PeerFacts, means: Means, *, proxied: bool) -> Granted | Denied:
        if (login.proxy_required or self._proxy_required) and not proxied:
            return PROXY_REQUIRED
        return Granted(Identity(login.name, login.account, None, login, peer.kind, means))
