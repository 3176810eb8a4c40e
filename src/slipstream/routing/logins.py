"""How a client gets in: who it says it is, who decides about that, and when.

    CONNECT ──► authenticator ──► granted or denied at once
                              ├─► a slow password: checked in a thread
                              ├─► a token of an account that is not here yet: looked up
                              ├─► a token of an OpenID issuer: its keys may have to come first
                              └─► an auth callout: a service is asked

Whatever it takes, it ends in `admit` or `refuse` of the connection, and nothing else of the client is looked at before.
A reload in between counts: who would not be let in any more is not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from slipstream.auth.authenticator import (
    Authenticator,
    ConnectionKind,
    Denied,
    Granted,
    Identity,
    NeedsAccount,
    NeedsCallout,
    NeedsIssuer,
    NeedsPasswordCheck,
    PeerFacts,
)
from slipstream.auth.identity import PROXY_NOT_TRUSTED, PROXY_REQUIRED
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.config.options import Options
    from slipstream.protocol.connection import ClientConnection
    from slipstream.protocol.info import ConnectInfo
    from slipstream.routing.callouts import Callouts
    from slipstream.routing.login_ends import LoginEnds
    from slipstream.routing.openid import OpenIdLogins
    from slipstream.routing.operators import OperatorMode

__all__ = ["LoginEdge", "Logins", "close_reason", "kind_of"]

_CLOSE_REASONS: Final = {
    PROXY_REQUIRED: CloseReason.PROXY_REQUIRED,
    PROXY_NOT_TRUSTED: CloseReason.PROXY_NOT_TRUSTED,
}


class LoginEdge(Protocol):
    """What logins ask of the side that has threads and timers."""

    def check_password(
        self, connection: ClientConnection, job: Callable[[], bool], done: Callable[[bool], None]
    ) -> None:
        """Run a job off the loop when it is this client's turn, and report its result on the loop."""
        ...

    def called_out(self, connection: ClientConnection) -> None:
        """Somebody else decides, in a time of its own: the authentication timer is over."""
        ...

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Run something when everybody else had a turn."""
        ...


class Logins:
    """The logins of one server."""

    def __init__(self, options: Options, edge: LoginEdge) -> None:
        self.authenticator = Authenticator(options)
        # Those who decide besides the configuration, where it asks for them.
        self.operators: OperatorMode | None = None
        self.callouts: Callouts | None = None
        self.openid: OpenIdLogins | None = None
        self.ends: LoginEnds | None = None
        # Whoever wants to know: the system account's events.
        self.on_denied: list[Callable[[ClientConnection, Denied], None]] = []
        self._options = options
        self._edge = edge

    # --- who decides ----------------------------------------------------------------------------------------------

    def trust(self, operators: OperatorMode) -> None:
        """Let tokens of operators decide from now on."""
        self.operators = operators
        self.authenticator = Authenticator(self._options, operators.verifier)

    def use_ends(self, ends: LoginEnds) -> None:
        """Cut connections when what let them in ends."""
        self.ends = ends

    def use_callouts(self, callouts: Callouts) -> None:
        """Ask services where the configuration or a token says so."""
        self.callouts = callouts

    def use_openid(self, openid: OpenIdLogins) -> None:
        """Believe issuers of OpenID tokens."""
        self.openid = openid

    def reload(self, options: Options) -> None:
        """Use other options for who comes from now on."""
        self._options = options
        if self.operators is not None:
            self.operators.use(options)
        self.authenticator = Authenticator(options, None if self.operators is None else self.operators.verifier)

    # --- a login --------------------------------------------------------------------------------------------------

    def authenticate(self, connection: ClientConnection, connect: ConnectInfo) -> None:
        """Find out who a client is; ends in `admit` or `refuse`, perhaps later."""
        cookies = connection.peer.cookies
        if cookies is not None:
            # What CONNECT does not say, the cookies of the WebSocket may.
            connect.jwt = connect.jwt or cookies.jwt
            connect.user = connect.user or cookies.user
            connect.password = connect.password or cookies.password
            connect.auth_token = connect.auth_token or cookies.token
            if self.authenticator.openid is not None and not (
                connect.jwt or connect.user or connect.password or connect.auth_token or connect.nkey
            ):
                connect.auth_token = cookies.bearer
        facts = PeerFacts(
            kind=kind_of(connection),
            ip=connection.peer.ip,
            nonce=connection.nonce.encode(),
            certificate=connection.peer.certificate,
        )
        authenticator = self.authenticator
        verdict = authenticator.authenticate(connect, facts)
        if isinstance(verdict, NeedsAccount):
            self._fetch_account(connection, connect, facts, verdict.account)
            return
        if (
            isinstance(verdict, NeedsCallout)
            and not connection.connected
            and not authenticator.accepts_anonymous(facts.kind)
        ):
            verdict = Denied("CONNECT has to come first")
        if isinstance(verdict, NeedsPasswordCheck):
            check = verdict
            connection.suspend()

            def matches() -> bool:
                # A login that was given up while it waited is not worth a tenth of a second.
                return connection.state is not State.CLOSED and check.job()

            def judge(matched: bool) -> None:
                verdict = self._as_of_now(check.resume(matched), authenticator, connect, facts)
                self._judge(connection, connect, facts, verdict)

            self._edge.check_password(connection, matches, judge)
            return
        if isinstance(verdict, NeedsIssuer):
            self._ask_issuer(connection, connect, facts, verdict)
            return
        self._judge(connection, connect, facts, verdict)

    def _fetch_account(
        self, connection: ClientConnection, connect: ConnectInfo, facts: PeerFacts, account: str
    ) -> None:
        """Get the account that a token names, and decide then."""
        assert self.operators is not None
        waits = settled = False

        def decide() -> None:
            verdict = self.authenticator.authenticate(connect, facts)
            if not isinstance(verdict, Granted | Denied | NeedsCallout):
                verdict = Denied("Account JWT lookup error")
            self._judge(connection, connect, facts, verdict)

        def looked_up() -> None:
            nonlocal settled
            settled = True
            if waits:
                decide()

        self.operators.lookup(account, looked_up)
        if settled:
            decide()
        else:
            waits = True
            connection.suspend()

    def _ask_issuer(
        self, connection: ClientConnection, connect: ConnectInfo, facts: PeerFacts, needed: NeedsIssuer
    ) -> None:
        """Let the keys of an OpenID issuer decide, at once or when they have come."""
        if self.openid is None:
            self._judge(connection, connect, facts, Denied("OpenID logins are not available"))
            return
        waits = False
        decided: Granted | Denied | None = None

        def decide(verdict: Granted | Denied) -> None:
            nonlocal decided
            decided = verdict
            if waits:
                self._judge(connection, connect, facts, verdict)

        self.openid.decide(needed, facts.kind, decide)
        if decided is not None:
            self._judge(connection, connect, facts, decided)
        else:
            # Its time to authenticate runs on: keys that come later are for the next who asks.
            waits = True
            connection.suspend()

    def _as_of_now(
        self,
        verdict: Granted | Denied | NeedsCallout,
        authenticator: Authenticator,
        connect: ConnectInfo,
        facts: PeerFacts,
    ) -> Granted | Denied | NeedsCallout:
        """A verdict that took its time: users may have been changed by a reload meanwhile."""
        if authenticator is self.authenticator or not isinstance(verdict, Granted):
            return verdict
        proxied = bool(self.authenticator.proxy_of(connect, facts))
        identity = self.authenticator.current(verdict.identity, proxied=proxied)
        return Denied("user has changed") if identity is None else Granted(identity)

    def _judge(
        self,
        connection: ClientConnection,
        connect: ConnectInfo,
        facts: PeerFacts,
        verdict: Granted | Denied | NeedsCallout,
    ) -> None:
        if connection.state is State.CLOSED:
            return
        if isinstance(verdict, NeedsCallout):
            self._call_out(connection, connect, facts, verdict)
            return
        if isinstance(verdict, Granted) and connect.proxy_sig:
            connection.proxy = self.authenticator.proxy_of(connect, facts)
            if not connection.proxy and self._options.trusted_proxies:
                verdict = PROXY_NOT_TRUSTED  # any more: by a reload, while something was waited for
        if isinstance(verdict, Granted):
            self._admit(connection, verdict.identity)
        else:
            for listener in self.on_denied:
                listener(connection, verdict)
            # What a callout said is in the log already.
            connection.refuse("" if verdict.account else verdict.reason, close_reason(verdict))

    def _admit(self, connection: ClientConnection, identity: Identity) -> None:
        if identity.means == "callout":
            assert identity.token is not None
            connection.claimed_user = identity.user
            if identity.token.claims.name:
                connection.claimed_as = f"user:{identity.user}"
        elif identity.openid is not None:
            connection.claimed_user, connection.claimed_as = identity.user, f"oidc:{identity.user}"
        elif identity.token is not None:
            connection.claimed_user = connection.claimed_user or identity.user
            connection.claimed_as = connection.claimed_as or f"jwt:{identity.user}"
        connection.admit(identity)
        if self.ends is not None:
            self.ends.admitted(connection)

    def _call_out(
        self, connection: ClientConnection, connect: ConnectInfo, facts: PeerFacts, needed: NeedsCallout
    ) -> None:
        """Let an auth callout decide; nothing else of this client is looked at before."""
        from slipstream.auth.callout.request import tls_claims
        from slipstream.routing.callouts import Caller

        connection.claimed_user = needed.shown_user
        connection.suspend()
        self._edge.called_out(connection)
        caller = Caller(
            cid=connection.cid,
            facts=facts,
            name=connection.name,
            lang=connection.lang,
            version=connection.version,
            protocol=connection.protocol,
            type=connection.peer.kind,
            tls=tls_claims(connection.peer.tls),
        )
        judge = partial(self._judge, connection, connect, facts)
        if self.callouts is None:
            self._edge.call_soon(partial(judge, Denied("auth callouts are not available", needed.account)))
        else:
            self.callouts.ask(caller, needed, judge)


def kind_of(connection: ClientConnection) -> ConnectionKind:
    """What users and tokens call this kind of connection."""
    return "WEBSOCKET" if connection.peer.kind == "websocket" else "STANDARD"


def close_reason(denied: Denied) -> CloseReason:
    """What monitoring says about the end of a client that may not come in."""
    return _CLOSE_REASONS.get(denied, CloseReason.AUTHENTICATION_VIOLATION)
