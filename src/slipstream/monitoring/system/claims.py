"""Tokens of accounts over the system account: pushed, looked up, listed, packed, deleted, as `nsc` does it.

    $SYS.REQ.ACCOUNT.<id>.CLAIMS.UPDATE, $SYS.ACCOUNT.<id>.CLAIMS.UPDATE    for every resolver
    $SYS.REQ.CLAIMS.UPDATE, LIST, DELETE                                     when tokens are kept in a directory
    $SYS.REQ.CLAIMS.PACK, $SYS.REQ.ACCOUNT.<id>.CLAIMS.LOOKUP                when it is complete (`full`)

Whoever is in the system account may ask; what is accepted was signed by a trusted operator. An answer is sent when the
token is on disk and in effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from slipstream.auth.jwt.checks import account_findings
from slipstream.auth.jwt.findings import Finding
from slipstream.auth.jwt.token import InvalidToken, decode_account, decode_generic
from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.config.checker import quote
from slipstream.ids import new_nuid
from slipstream.jetstream.api.actions import Action
from slipstream.subjects.transform import transform_problem
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.member import Member
    from slipstream.auth.jwt.claims import AccountClaims
    from slipstream.monitoring.system.envelope import Sender
    from slipstream.routing.deadlines import Cancellable, Timers
    from slipstream.routing.operators import OperatorMode

__all__ = ["ClaimsService", "TokenStore"]

_OK, _FAILED = 200, 500
_NOT_FOUND: Final = "account jwt not found"


class TokenStore(Protocol):
    """A directory of tokens. Everything is done later; what was not has a reason."""

    is_cache: bool
    interval_ns: int
    timeout_ns: int
    ask_others: Callable[[str, Callable[[str, str], None]], None] | None

    @property
    def allows_delete(self) -> bool: ...
    @property
    def digest(self) -> bytes: ...
    def fetch(self, name: str, done: Callable[[str, str], None]) -> None: ...
    def save(self, name: str, text: str, done: Callable[[bool | None, str], None]) -> None: ...
    def merge(self, tokens: Iterable[tuple[str, str]], done: Callable[[list[str] | None, str], None]) -> None: ...
    def delete(self, names: Iterable[str], done: Callable[[list[str] | None, str], None]) -> None: ...
    def tokens(self, done: Callable[[list[tuple[str, str]] | None, str], None]) -> None: ...


class _Refused(Exception):
    """A request that is not carried out: the account it is about, what was tried, and why not."""

    def __init__(self, account: str, what: str, why: str) -> None:
        self.account, self.what, self.why = account, what, why


class Recorder(Protocol):
    """Writes an action down."""

    def __call__(
        self, action: Action, *, asker: Member | None = None, subject: str = "", body: bytes = b"", error: str = ""
    ) -> None: ...


class _Asked(NamedTuple):
    """A request that changes something."""

    action: str
    asker: Member | None
    subject: str
    reply: bytes | None
    body: bytes


class ClaimsService:
    """The listeners in the system account of one server."""

    def __init__(
        self,
        mode: OperatorMode,
        store: TokenStore | None,
        sender: Callable[[], Sender],
        timers: Timers,
        log: Callable[[str, str], object],
        record: Recorder,
    ) -> None:
        """Serve for the operators; `record` writes down what was pushed and deleted."""
        self._record = record
        self._mode = mode
        self._store = store
        self._sender = sender
        self._timers = timers
        self._log = log
        self._system: Account | None = None
        self._timer: Cancellable | None = None
        operators = mode.trust.operators
        self._strict_operator = ""
        self._operator_keys: frozenset[str] = frozenset()
        if operators:
            first = operators[0]
            strict = first.nats.strict_signing_key_usage
            self._strict_operator = first.sub if strict else ""
            self._operator_keys = frozenset((*(first.nats.signing_keys or ()), *(() if strict else (first.sub,))))

    def start(self, system: Account) -> None:
        """Listen."""
        self._system = system
        subjects: dict[str, Callable[[str, bytes | None, bytes], None]] = {}
        changes: dict[str, tuple[str, Callable[[_Asked], None]]] = {
            "$SYS.ACCOUNT.*.CLAIMS.UPDATE": ("claims.update", self._on_update),
            "$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE": ("claims.update", self._on_update),
        }
        store = self._store
        if store is not None:
            changes["$SYS.REQ.CLAIMS.UPDATE"] = ("claims.update", self._on_update)
            subjects["$SYS.REQ.CLAIMS.LIST"] = self._on_list
            changes["$SYS.REQ.CLAIMS.DELETE"] = ("claims.delete", self._on_delete)
            if store.is_cache:
                store.ask_others = self._ask_others
            else:
                subjects["$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP"] = self._on_lookup
                system.subscribe(b"$SYS.REQ.CLAIMS.PACK", _callback(self._on_pack), b"responder")
                self._pack_inbox = f"$SYS._INBOX.{new_nuid(self._sender().facts.hub.rng)}"
                system.subscribe(self._pack_inbox.encode(), _callback(self._on_packed))
                self._compare_later()
        for subject, handler in subjects.items():
            system.subscribe(subject.encode(), _callback(handler))
        for subject, (action, change) in changes.items():
            system.subscribe(subject.encode(), _change(action, change))

    def stop(self) -> None:
        """Compare no more; the listeners go with their account."""
        if self._timer is not None:
            self._timer.cancel()

    # --- update ---------------------------------------------------------------------------------------------------

    def _on_update(self, asked: _Asked) -> None:
        tokens = asked.subject.split(".")
        # One is for whichever account the token is about, the others name it.
        name = {5: tokens[2], 6: tokens[3]}.get(len(tokens), "") if "ACCOUNT" in tokens else ""
        text = asked.body.decode("utf-8", "replace")
        try:
            claims = self._checked_update(name, text)
        except _Refused as refused:
            self._answer(asked, refused.account, refused.what, refused.why)
            return
        if claims is None:
            self._answer(asked, name, "jwt update skipped" if self._store is None else "jwt update cache skipped")
        elif self._store is None:
            self._mode.update(claims.sub, text, lambda error: self._updated(asked, claims.sub, error))
        else:
            self._store.save(
                claims.sub, text, lambda changed, error: self._saved(asked, claims.sub, text, changed, error)
            )

    def _checked_update(self, name: str, text: str) -> AccountClaims | None:
        """The token that is to be taken over; None when nobody needs it here.

        Raises:
            _Refused: it cannot be.
        """
        store = self._store
        what = "jwt update cache" if store is not None and store.is_cache else "jwt update"
        if store is None and not text:
            raise _Refused(name, "jwt update error", "request body is empty")
        try:
            claims = decode_account(text)
        except InvalidToken as error:
            named = name if store is None or store.is_cache else ""
            raise _Refused(named or "n/a", f"{what} resulted in error", str(error)) from None
        if name and store is not None and not store.is_cache:
            self._validate(claims, "jwt validation failed")
        if name and claims.sub != name:
            raise _Refused(name, f"{what} resulted in error", "subject does not match jwt content")
        if store is not None and claims.iss == self._strict_operator:
            raise _Refused(claims.sub, f"{what} resulted in error", "operator requires issuer to be a signing key")
        if (store is None or store.is_cache) and claims.sub not in self._mode.claimed.accounts:
            return None
        if store is not None:
            self._validate(claims, f"{what} validation failed" if store.is_cache else "jwt validation failed")
            if claims.iss not in self._mode.trust.keys:
                # nats-server keeps it, and refuses everybody who comes with it.
                raise _Refused(claims.sub, f"{what} resulted in error", "not trusted")
        return claims

    def _validate(self, claims: AccountClaims, what: str) -> None:
        now_s = self._mode.now_ns() // SECOND_NS
        found: list[Finding] = [finding for finding in account_findings(claims, now_s) if finding.blocking]
        if found:
            raise _Refused(claims.sub, what, f"validation errors: [{' '.join(finding.text for finding in found)}]")
        for source, destinations in (claims.nats.mappings or {}).items():
            for destination in destinations:
                wrong = transform_problem(source, destination.subject)
                if wrong is not None:
                    raise _Refused(
                        claims.sub, what, f"mapping {quote(source)} -> {quote(destination.subject)}: {wrong}"
                    )

    def _updated(self, asked: _Asked, name: str, error: str) -> None:
        self._answer(asked, name, "jwt update resulted in error" if error else "jwt updated", error)

    def _saved(self, asked: _Asked, name: str, text: str, changed: bool | None, error: str) -> None:
        assert self._store is not None
        cached = " cache" if self._store.is_cache else ""
        if changed is None:
            self._answer(asked, name, f"jwt update{cached} resulted in error", error)
            return

        def applied(problem: str) -> None:
            if problem:
                self._log("ERR", f'DirResolver - Update for account "{name}" resulted in error {problem}')
            self._answer(asked, name, f"jwt updated{cached}")

        if name in self._mode.claimed.accounts:
            self._mode.update(name, text, applied)
        else:
            applied("")

    # --- look up, list, pack --------------------------------------------------------------------------------------

    def _on_lookup(self, subject: str, reply: bytes | None, _message: bytes) -> None:
        assert self._store is not None
        name = subject.split(".")[3]

        def found(text: str, error: str) -> None:
            if error == _NOT_FOUND:
                self._log("DBG", f'DirResolver - Could not find account "{name}"')
                self._send(reply, b"")
            elif error:
                self._log("ERR", f'DirResolver - Error looking up account "{name}": {error}')
            else:
                self._send(reply, text.encode())

        if reply is not None:
            self._store.fetch(name, found)

    def _on_list(self, _subject: str, reply: bytes | None, _message: bytes) -> None:
        assert self._store is not None

        def listed(tokens: list[tuple[str, str]] | None, error: str) -> None:
            if tokens is None:
                self._log("ERR", f"list request error: {error}")
                return
            self._log("DBG", f"list request responded with {len(tokens)} account ids")
            if reply is not None:
                sender = self._sender()
                answer = {"data": [name for name, _text in tokens], "server": sender.server()}
                sender.publish(reply.decode("utf-8", "surrogateescape"), answer)

        if reply is not None:
            self._store.tokens(listed)

    def _on_pack(self, _subject: str, reply: bytes | None, message: bytes) -> None:
        """Send every token to somebody who has not the same, each in a message, and an empty one at the end."""
        store = self._store
        assert store is not None
        if reply is None:
            return
        if message == store.digest:
            self._send(reply, b"")
            return

        def packed(tokens: list[tuple[str, str]] | None, error: str) -> None:
            if tokens is None:
                self._log("ERR", f"DirResolver - Pack request error: {error}")
                return
            for name, text in tokens:
                self._send(reply, f"{name}|{text}".encode("utf-8", "replace"))
            self._send(reply, b"")

        store.tokens(packed)

    # --- others ---------------------------------------------------------------------------------------------------

    def _compare_later(self) -> None:
        assert self._store is not None
        self._timer = self._timers.call_later(self._store.interval_ns, self._compare)

    def _compare(self) -> None:
        """Ask others for what they have and this server has not."""
        assert self._store is not None
        assert self._system is not None
        self._log("DBG", f"DirResolver - Checking store state: {self._store.digest.hex()}")
        self._system.publish(b"$SYS.REQ.CLAIMS.PACK", self._pack_inbox.encode(), 0, self._store.digest)
        self._compare_later()

    def _on_packed(self, _subject: str, _reply: bytes | None, message: bytes) -> None:
        """A token of another server: kept if it is newer, and a trusted operator signed it."""
        assert self._store is not None
        found: list[tuple[str, str]] = []
        for line in message.decode("utf-8", "replace").split("\n"):
            name, separator, text = line.partition("|")
            try:
                if separator and self._mode.checked(name, text):
                    found.append((name, text))
            except InvalidToken as error:
                self._log("ERR", f"DirResolver - Merging resulted in error: {error}")
        if not found:
            return
        texts = dict(found)

        def merged(changed: list[str] | None, error: str) -> None:
            if changed is None:
                self._log("ERR", f"DirResolver - Merging resulted in error: {error}")
            for name in changed or ():
                if name in self._mode.claimed.accounts:
                    self._mode.update(name, texts[name], lambda _error: None)

        self._store.merge(found, merged)

    def _ask_others(self, name: str, done: Callable[[str, str], None]) -> None:
        """Ask whoever listens in the system account for an account; the first that has it is believed."""
        system, store = self._system, self._store
        assert system is not None
        assert store is not None
        inbox = f"$SYS._INBOX.{new_nuid(self._sender().facts.hub.rng)}".encode()
        answered = False

        def finish(text: str, error: str) -> None:
            nonlocal answered
            if not answered:
                answered = True
                system.remove(subscription)
                timer.cancel()
                done(text, error)

        def heard(_subject: str, _reply: bytes | None, message: bytes) -> None:
            text = message.decode("utf-8", "replace")
            try:
                self._mode.checked(name, text)
            except InvalidToken:
                return  # somebody else may know better
            store.merge([(name, text)], lambda _kept, error: finish("" if error else text, error))

        subscription = system.subscribe(inbox, _callback(heard))
        timer = self._timers.call_later(store.timeout_ns, lambda: finish("", "fetching jwt timed out"))
        system.publish(f"$SYS.REQ.ACCOUNT.{name}.CLAIMS.LOOKUP".encode(), inbox, 0, b"")

    # --- delete ---------------------------------------------------------------------------------------------------

    def _on_delete(self, asked: _Asked) -> None:
        assert self._store is not None
        try:
            names = self._checked_delete(asked.body.decode("utf-8", "replace"))
        except _Refused as refused:
            self._answer(asked, "", refused.what, refused.why)
            return

        def deleted(gone: list[str] | None, error: str) -> None:
            for name in gone or ():
                self._mode.remove(name)
            if gone is None:
                self._answer(asked, "", f"deleted 0 accounts, failed for {len(names)}", error)
            else:
                self._answer(asked, "", f"deleted {len(names)} accounts")

        self._store.delete(names, deleted)

    def _checked_delete(self, text: str) -> list[str]:
        """The accounts that an operator wants to be deleted.

        Raises:
            _Refused: it is not the operator's wish, or cannot be granted.
        """
        store, system = self._store, self._system
        assert store is not None
        assert system is not None
        subject = ""
        try:
            claims = decode_generic(text)
            subject = claims.sub
            names = claims.nats.get("accounts")
            if not store.allows_delete:
                raise InvalidToken("delete must be enabled in server config")
            if subject != claims.iss:
                raise InvalidToken("not self signed")
            if claims.iss not in self._operator_keys:
                raise InvalidToken("not trusted")
            if not isinstance(names, list):
                raise InvalidToken("malformed request")
            wanted = [name for name in names if isinstance(name, str) and is_public_key(name, KeyKind.ACCOUNT)]
            if len(wanted) != len(names):
                raise InvalidToken("malformed request")
            if system.name in wanted:
                raise InvalidToken("not allowed to delete system account")
        except InvalidToken as refusal:
            raise _Refused("", f"delete accounts request by {subject} failed", str(refusal)) from None
        return wanted

    # --- answers --------------------------------------------------------------------------------------------------

    def _answer(self, asked: _Asked, account: str, what: str, error: str = "") -> None:
        action = Action(asked.action, target=account)
        self._record(action, asker=asked.asker, subject=asked.subject, body=asked.body, error=error)
        about = f"{what} - {account}" if account else what
        self._log(*(("ERR", f"{about} - {error}") if error else ("DBG", about)))
        if asked.reply is None:
            return
        named = {"account": account} if account else {}
        sender = self._sender()
        answer: dict[str, object] = {"server": sender.server()}
        if error:
            answer["error"] = {**named, "code": _FAILED, "description": f"{what} - {error}"}
        else:
            answer["data"] = {**named, "code": _OK, "message": what}
        sender.publish(asked.reply.decode("utf-8", "surrogateescape"), answer)

    def _send(self, reply: bytes | None, body: bytes) -> None:
        if reply is not None and self._system is not None:
            self._system.publish(reply, None, 0, body)


def _callback(handler: Callable[[str, bytes | None, bytes], None]) -> Callable[..., bool]:
    def on_message(_publisher: object, subject: bytes, reply: bytes | None, header_size: int, message: bytes) -> bool:
        handler(subject.decode("utf-8", "surrogateescape"), reply, message[header_size:])
        return True

    return on_message


def _change(action: str, handler: Callable[[_Asked], None]) -> Callable[..., bool]:
    def on_message(asker: Member | None, subject: bytes, reply: bytes | None, header_size: int, message: bytes) -> bool:
        handler(_Asked(action, asker, subject.decode("utf-8", "surrogateescape"), reply, message[header_size:]))
        return True

    return on_message
