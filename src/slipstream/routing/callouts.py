"""Auth callouts under way: a request in the service's account, an answer or the end of its time.

    ask ──► request on $SYS.REQ.USER.AUTH ──► answer ──► checked ──► placed in an account ──► Granted
                                          └─► no answer in time, or one that is not to be believed ──► Denied

`ask` is the way in for every entrance: whatever authenticates a connection and is told `NeedsCallout` calls it with the
facts of the connection, and lets nothing else of that connection happen until `done` is called, which is never at once.

Bounded by the connections that wait: each is asked about once at a time, and for no longer than the time in which a
client has to authenticate.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from slipstream.auth.callout.keys import NONCE_BYTES, SealError, ServerKeys
from slipstream.auth.callout.request import SUBJECT, XKEY_HEADER, AskingServer, ClientFacts, ConnectFacts, request
from slipstream.auth.callout.response import CalloutRefusal, Question, answered_user, end_of, target_of
from slipstream.auth.identity import Denied, Granted, Identity, TokenLogin
from slipstream.auth.jwt.rights import permissions_of
from slipstream.auth.nkeys import KeyKind, encode_public_key
from slipstream.auth.permissions import Permissions
from slipstream.config.checker import quote
from slipstream.config.record import Record
from slipstream.errors import ConfigError
from slipstream.units import SECOND_NS
from slipstream.version import SERVER_VERSION

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.member import Member
    from slipstream.auth.callout.request import TlsClaims
    from slipstream.auth.identity import NeedsCallout, PeerFacts
    from slipstream.auth.jwt.claims import RightsClaim, UserClaims
    from slipstream.auth.jwt.windows import Zones
    from slipstream.config.account_options import PermissionsOptions
    from slipstream.routing.deadlines import Timers
    from slipstream.routing.hub import Hub

__all__ = ["Caller", "Callouts"]

_INBOX: Final = b"$SYS._INBOX."
_INBOX_BYTES: Final = 16  # unguessable: who knew it could at most make a request fail
_KEY_BYTES: Final = 32

Done = Callable[[Granted | Denied], None]


class Caller(Record):
    """The connection that is asked about."""

    cid: int
    facts: PeerFacts
    name: str = ""
    lang: str = ""
    version: str = ""
    protocol: int = 0
    kind: str = "Client"  # or `Leafnode`
    type: str = "nats"  # or `websocket`
    tls: TlsClaims | None = None


class Callouts:
    """Asks the auth callouts of one server."""

    def __init__(
        self,
        hub: Hub,
        keys: ServerKeys,
        timers: Timers,
        timeout_ns: Callable[[], int],
        zones: Zones,
        log: Callable[[str, str], object],
    ) -> None:
        self._hub = hub
        self._keys = keys
        self._timers = timers
        self._timeout_ns = timeout_ns
        self._zones = zones
        self._log = log

    def ask(self, caller: Caller, needed: NeedsCallout, done: Done) -> None:
        """Ask about a connection; `done` gets the verdict, later."""
        account = self._hub.accounts.get(needed.account)
        configured = self._hub.options.authorization.auth_callout
        operators = self._hub.logins.operators
        claims = None if operators is None else operators.claims_of(needed.account)
        if account is None or (claims is None and configured is None):
            text = f"No valid account {quote(needed.account)} for auth callout request: account missing"
            self._deny(text, needed, done)
            return
        xkey = claims.nats.authorization.xkey if claims is not None else configured.xkey if configured else ""
        question = Question(
            user=encode_public_key(KeyKind.USER, os.urandom(_KEY_BYTES)),
            server=self._keys.id,
            account=needed.account,
            peer=caller.facts,
            proxied=needed.proxied,
            issuer=configured.issuer if claims is None and configured is not None else "",
            claims=claims,
            opened=partial(self._keys.open, sender=xkey) if xkey else None,
        )
        try:
            head, body = self._request(caller, needed, question, xkey)
        except SealError as error:
            text = f"Error encrypting auth request claim on account {quote(needed.account)}: {error}"
            self._deny(text, needed, done)
            return
        _Waiting(self, account, question, needed, done).begin(head, body, self._timers, self._timeout_ns())

    def _request(self, caller: Caller, needed: NeedsCallout, question: Question, xkey: str) -> tuple[bytes, bytes]:
        """Header and body of a request."""
        hub, now_s = self._hub, self._hub.now_ns() // SECOND_NS
        user = None if needed.token is None else needed.token.claims
        text = request(
            subject=question.issuer or question.account,
            user=question.user,
            server=AskingServer(
                name=hub.identity.name,
                host=hub.host,
                id=hub.identity.id,
                version=SERVER_VERSION,
                cluster=hub.options.cluster.name,
                tags=hub.options.server_tags,
                xkey=self._keys.xkey if xkey else "",
            ),
            client=ClientFacts(
                host=caller.facts.ip,
                id=caller.cid,
                user=needed.shown_user,
                name=caller.name,
                tags=() if user is None else user.nats.tags or (),
                name_tag="" if user is None else user.name,
                kind=caller.kind,
                type=caller.type,
                nonce=caller.facts.nonce.decode() if needed.sig else "",
            ),
            connect=ConnectFacts(
                jwt=needed.jwt,
                nkey=needed.nkey,
                sig=needed.sig,
                auth_token=needed.auth_token,
                user=needed.user,
                password=needed.password,
                name=caller.name,
                lang=caller.lang,
                version=caller.version,
                protocol=caller.protocol,
            ),
            tls=caller.tls,
            now_s=now_s,
            until_s=now_s + self._timeout_ns() // SECOND_NS,
            sign=self._keys.sign,
        ).encode()
        if not xkey:
            return b"", text
        head = b"NATS/1.0\r\n%b: %b\r\n\r\n" % (XKEY_HEADER, self._keys.xkey.encode())
        return head, self._keys.seal(text, xkey, os.urandom(NONCE_BYTES))

    # --- the answer -----------------------------------------------------------------------------------------------

    def answered(self, raw: bytes, question: Question, needed: NeedsCallout, done: Done) -> None:
        """An answer came: let the user in that it names, if all of it fits."""
        try:
            user = answered_user(raw, question, self._hub.now_ns() // SECOND_NS, self._zones)
            target = target_of(user, question)
        except CalloutRefusal as refusal:
            self._deny(str(refusal), needed, done)
            return
        place = partial(self._place, user, target, question, needed, done)
        if self._hub.logins.operators is not None:
            self._hub.logins.operators.lookup(target, place)
        else:
            place()

    def _place(self, user: UserClaims, target: str, question: Question, needed: NeedsCallout, done: Done) -> None:
        try:
            identity = self._identity(user, target, question, needed)
        except CalloutRefusal as refusal:
            self._deny(str(refusal), needed, done)
        except ConfigError as error:
            self._deny(f"Could not register auth callout user: {error.message}", needed, done)
        else:
            done(Granted(identity))

    def _identity(self, user: UserClaims, target: str, question: Question, needed: NeedsCallout) -> Identity:
        operators, now_ns = self._hub.logins.operators, self._hub.now_ns()
        rights: RightsClaim = user.nats
        scope = None
        has_callout = target == question.account
        default: PermissionsOptions | None
        if operators is not None:
            account = operators.claims_of(target)
            if account is None:
                raise self._no_account(target, question)
            rights = operators.verifier.called_out(user, account)
            scope = account.nats.signing_keys.get(user.iss)
            default = permissions_of(account.nats.default_permissions)
            has_callout = has_callout or bool(account.nats.authorization.auth_users)
        else:
            if target not in self._hub.accounts:
                raise self._no_account(target, question)
            default = None  # those of a configured account are for its configured users alone
        ends = [end_of(user, rights, question, now_ns, self._zones)]
        ends += [needed.token.until_ns] if needed.token is not None else []
        own = permissions_of(rights)
        compiled = Permissions.without_callout if has_callout else Permissions.compile
        return Identity(
            user=user.name or needed.nkey or needed.user or ("[REDACTED]" if needed.auth_token else ""),
            account=target,
            permissions=compiled(own or default),
            kind=question.peer.kind,
            means="callout",
            token=TokenLogin(
                user,
                # What is not named does not limit here: services leave it out, and nats-server does not look at it.
                max_payload=rights.payload if rights.payload > 0 else -1,
                max_subscriptions=rights.subs if rights.subs > 0 else -1,
                until_ns=min((end for end in ends if end), default=0),
                own_rights=own is not None,
                scope=scope,
            ),
        )

    def _no_account(self, target: str, question: Question) -> CalloutRefusal:
        about = f"{quote(target)} for auth callout response on account {quote(question.account)}"
        return CalloutRefusal(f"no valid account {about}: account missing")

    def timed_out(self, needed: NeedsCallout, done: Done) -> None:
        """No answer came."""
        account = quote(needed.account)
        self._log("DBG", f"Authorization callout response not received in time on account {account}")
        done(Denied("", needed.account))

    def _deny(self, text: str, needed: NeedsCallout, done: Done) -> None:
        self._log("WRN", text)
        done(Denied(text, needed.account))

    def soon(self, callback: Callable[[], object]) -> None:
        """Go on when everybody else had a turn: an answer comes in the middle of what its sender does."""
        self._hub.call_soon(callback)


class _Waiting:
    """One request until its answer."""

    __slots__ = ("_account", "_callouts", "_done", "_inbox", "_needed", "_question", "_settled", "_timer")

    def __init__(
        self, callouts: Callouts, account: Account, question: Question, needed: NeedsCallout, done: Done
    ) -> None:
        self._callouts = callouts
        self._account = account
        self._question = question
        self._needed = needed
        self._done = done
        self._settled = False

    def begin(self, head: bytes, body: bytes, timers: Timers, timeout_ns: int) -> None:
        """Send the request."""
        subject = _INBOX + os.urandom(_INBOX_BYTES).hex().encode()
        self._inbox = self._account.subscribe(subject, self._on_answer)
        self._timer = timers.call_later(timeout_ns, self._on_timeout)
        self._account.publish(SUBJECT, subject, len(head), head + body)

    def _on_answer(
        self, _publisher: Member | None, _subject: bytes, _reply: bytes | None, header_size: int, body: bytes
    ) -> None:
        if self._settle():
            raw = bytes(body[header_size:])
            self._callouts.soon(partial(self._callouts.answered, raw, self._question, self._needed, self._done))

    def _on_timeout(self) -> None:
        if self._settle():
            self._callouts.timed_out(self._needed, self._done)

    def _settle(self) -> bool:
        """Whether this is the first answer; nothing more is listened to then."""
        if self._settled:
            return False
        self._settled = True
        self._timer.cancel()
        self._account.remove(self._inbox)
        return True
