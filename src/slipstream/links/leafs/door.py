"""Who a leaf node is that connects here: credentials of CONNECT in, an identity or the end of its link out.

A password may take its time, and so may an account whose token is elsewhere: meanwhile nothing more is read of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.auth.identity import (
    Denied,
    Granted,
    NeedsAccount,
    NeedsCallout,
    NeedsIssuer,
    NeedsPasswordCheck,
    PeerFacts,
)
from slipstream.auth.jwt.verifier import Departure
from slipstream.auth.leaf_logins import LeafLogins
from slipstream.config.record import replace
from slipstream.links.leafs.words import WEBSOCKET_LEAF
from slipstream.protocol import texts
from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.auth.identity import ConnectionKind, Identity, Verdict
    from slipstream.links.leafs.handshake import LeafConnect
    from slipstream.links.leafs.link import LeafLink
    from slipstream.routing.hub import Hub

__all__ = ["LeafDoor"]

CheckPassword = Callable[["LeafLink", Callable[[], bool], Callable[[bool], None]], None]
Admit = Callable[["Identity"], None]


class LeafDoor:
    """Decides about leaf nodes that connect to one server.

    Args:
        hub: accounts, users and options.
        check_password: runs a slow comparison off the loop.
        called_out: somebody else decides, in a time of its own.
    """

    def __init__(self, hub: Hub, check_password: CheckPassword, called_out: Callable[[LeafLink], None]) -> None:
        self._hub = hub
        self._check_password = check_password
        self._called_out = called_out
        self._logins = LeafLogins(hub.options, hub.authenticator)

    def reload(self) -> None:
        """Other users are configured."""
        self._logins = LeafLogins(self._hub.options, self._hub.authenticator)

    def still_holds(self, identity: Identity) -> bool:
        """Whether somebody would come in today as it did."""
        return self._logins.still_holds(identity)

    def departure(self, identity: Identity) -> tuple[CloseReason, str | None] | None:
        """Why somebody who came in with a token may not stay as it is, under the present token of its account."""
        operators = self._hub.logins.operators
        if identity.token is None or operators is None:
            return None
        claims = operators.claims_of(identity.account)
        if claims is None:
            return CloseReason.AUTHENTICATION_EXPIRED, texts.ACCOUNT_AUTHENTICATION_EXPIRED
        present = operators.verifier.present(identity, claims)
        if isinstance(present, Departure):
            if present.why == "revoked":
                return CloseReason.REVOCATION, texts.AUTHENTICATION_REVOKED
            return CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION
        before, after = identity.permissions, present.permissions
        if (None if before is None else before.options) != (None if after is None else after.options):
            return CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION
        return None

    def ask(self, link: LeafLink, connect: LeafConnect, admit: Admit) -> None:
        """Decide; ends in `admit` or with the link closed, perhaps later."""
        kind: ConnectionKind = "LEAFNODE_WS" if link.peer.kind == WEBSOCKET_LEAF else "LEAFNODE"
        peer = PeerFacts(kind=kind, ip=link.peer.ip, nonce=link.nonce.encode(), certificate=link.peer.certificate)
        self._judge(link, connect, peer, self._logins.authenticate(connect, peer), admit)

    def _judge(self, link: LeafLink, connect: LeafConnect, peer: PeerFacts, verdict: Verdict, admit: Admit) -> None:
        if not link.end.is_open:
            return
        if isinstance(verdict, NeedsPasswordCheck):
            check = verdict
            link.parser.pause()
            self._check_password(
                link, check.job, lambda matched: self._judge(link, connect, peer, check.resume(matched), admit)
            )
        elif isinstance(verdict, NeedsAccount):
            self._fetch_account(link, connect, peer, verdict.account, admit)
        elif isinstance(verdict, Granted):
            admit(verdict.identity)
        elif isinstance(verdict, NeedsCallout):
            self._call_out(link, connect, peer, verdict, admit)
        elif isinstance(verdict, NeedsIssuer):
            self._ask_issuer(link, connect, peer, verdict, admit)
        else:
            who = connect.nkey or _user_of(connect)
            shown = f" - User {texts.quoted_text(who)}" if who else ""
            link.log("DBG", f"Leafnode refused: {verdict.reason}")
            link.log("ERR", f"authentication error{shown}")
            link.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)

    def _call_out(
        self, link: LeafLink, connect: LeafConnect, peer: PeerFacts, needed: NeedsCallout, admit: Admit
    ) -> None:
        """Let an auth callout decide, in a time of its own."""
        from slipstream.auth.callout.request import tls_claims
        from slipstream.routing.callouts import Caller

        callouts = self._hub.logins.callouts
        if callouts is None:
            self._judge(link, connect, peer, Denied("auth callouts are not available", needed.account), admit)
            return
        link.parser.pause()
        self._called_out(link)
        caller = Caller(
            cid=link.cid,
            facts=peer,
            name=connect.name,
            version=connect.version,
            protocol=connect.protocol,
            kind="Leafnode",
            type="",  # of clients alone
            tls=tls_claims(link.peer.tls),
        )
        callouts.ask(caller, needed, lambda verdict: self._judge(link, connect, peer, verdict, admit))

    def _ask_issuer(
        self, link: LeafLink, connect: LeafConnect, peer: PeerFacts, needed: NeedsIssuer, admit: Admit
    ) -> None:
        """Let the keys of an OpenID issuer decide, at once or when they have come; its time runs on."""
        openid = self._hub.logins.openid
        if openid is None:
            self._judge(link, connect, peer, Denied("OpenID logins are not available"), admit)
            return
        link.parser.pause()
        needed = replace(needed, user=_user_of(connect))
        openid.decide(needed, peer.kind, lambda verdict: self._judge(link, connect, peer, verdict, admit))

    def _fetch_account(self, link: LeafLink, connect: LeafConnect, peer: PeerFacts, account: str, admit: Admit) -> None:
        """Get the account that a token names, and decide then."""
        operators = self._hub.logins.operators
        assert operators is not None
        link.parser.pause()

        def looked_up() -> None:
            verdict = self._logins.authenticate(connect, peer)
            if isinstance(verdict, NeedsAccount):
                verdict = Denied("Account JWT lookup error")
            self._judge(link, connect, peer, verdict, admit)

        operators.lookup(account, looked_up)


def _user_of(connect: LeafConnect) -> str:
    """Who a peer says it is: one with a token alone gives that as its user, too."""
    return "" if connect.user == connect.auth_token else connect.user
