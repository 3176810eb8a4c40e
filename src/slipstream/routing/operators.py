"""Operator mode: accounts come when they are needed, from a resolver, and change while clients are connected.

    CONNECT ──► verifier ──► account unknown ──► resolver ──► account with all it imports ──► verifier again
    update  ──► checked ──► the account, those that import from it, and their clients take over what changed

The resolver is a port: it may answer at once (memory) or later (files, HTTP). What is fetched together is put in place
together, so that an account is never seen without what it imports.

Invariant: an account stays when its token ends or is deleted, without clients and without rights; it comes back with
a new token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from slipstream.accounts.claimed import Claimed, ClaimedAccounts
from slipstream.auth.identity import Identity
from slipstream.auth.jwt.checks import account_findings
from slipstream.auth.jwt.claims import NO_LIMIT, AccountClaims, AccountPart, Limits
from slipstream.auth.jwt.findings import blocks
from slipstream.auth.jwt.token import InvalidToken, decode_account
from slipstream.auth.jwt.verifier import TokenVerifier
from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.protocol import texts
from slipstream.protocol.texts import CloseReason
from slipstream.routing.deadlines import Deadlines, Timers
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.auth.jwt.trust import Trust
    from slipstream.auth.jwt.windows import Zones
    from slipstream.config.options import Options
    from slipstream.protocol.connection import ClientConnection
    from slipstream.routing.hub import Hub

__all__ = ["AccountResolver", "OperatorMode"]

# Accounts looked up at the same time for clients that wait. Anybody can name an account that does not exist.
LOOKUPS_MAX: Final = 1_000
# An account that has expired is asked for again at most this often, as nats-server does.
_REFETCH_NS: Final = SECOND_NS

Done = Callable[[str], None]  # told why it failed; empty: it did not


class AccountResolver(Protocol):
    """Where the tokens of accounts come from."""

    def fetch(self, name: str, done: Callable[[str, str], None]) -> None:
        """Look for the token of an account; `done` gets it, or nothing and the reason. Perhaps at once."""
        ...

    def fetch_now(self, name: str) -> str:
        """The same at a start, when nobody can be kept waiting; empty when there is none.

        Raises:
            OSError: it cannot be looked for.
        """
        ...

    def close(self) -> None:
        """Look for nothing more."""
        ...


class OperatorMode:
    """The accounts of one server, and who is let in. Implements `auth.jwt.verifier.Accounts`."""

    def __init__(
        self,
        hub: Hub,
        trust: Trust,
        resolver: AccountResolver,
        timers: Timers,
        zones: Zones,
        log: Callable[[str, str], object],
    ) -> None:
        self.trust = trust
        self.resolver = resolver
        self.claimed = ClaimedAccounts()
        self._hub = hub
        self._zones = zones
        self._log = log
        self._lookups: dict[str, list[Callable[[], None]]] = {}
        self._deadlines = Deadlines(timers, hub.clock.now_ns)
        # Whoever depends on accounts: told the names of those that came or changed.
        self.on_changed: list[Callable[[Iterable[str]], None]] = []
        self.on_expired: list[Callable[[str], None]] = []
        self._options = hub.options
        self.verifier = self._new_verifier()

    def use(self, options: Options) -> None:
        """Decide by these options from now on."""
        self._options = options
        refused, self.verifier = self.verifier.pinned_refusals, self._new_verifier()
        self.verifier.pinned_refusals = refused

    def _new_verifier(self) -> TokenVerifier:
        return TokenVerifier(self._options, self.trust, self, self._hub.clock.now_ns, self._zones)

    # --- accounts -------------------------------------------------------------------------------------------------

    def claims_of(self, name: str) -> AccountClaims | None:
        """The claims of an account that may be used now."""
        known = self.claimed.accounts.get(name)
        return None if known is None or known.is_expired else known.claims

    def lookup(self, name: str, done: Callable[[], None]) -> None:
        """Try to get an account that is not known, or has expired; `done` when that has ended, perhaps at once."""
        known = self.claimed.accounts.get(name)
        if known is not None and (not known.is_expired or self._hub.clock.now_ns() - known.updated_ns < _REFETCH_NS):
            done()
            return
        waiting = self._lookups.get(name)
        if waiting is not None:
            waiting.append(done)
            return
        if len(self._lookups) >= LOOKUPS_MAX:
            self._log("WRN", f"Account fetch failed: more than {LOOKUPS_MAX} lookups at the same time")
            done()
            return
        self._lookups[name] = [done]

        def gathered(found: dict[str, Claimed]) -> None:
            self._put(found.values())
            for call in self._lookups.pop(name):
                call()

        _Gathering(self, gathered).want(name)

    def update(self, name: str, text: str, done: Done) -> None:
        """Take over another token of an account that is in use."""
        known = self.claimed.accounts.get(name)
        if known is None:
            done("account missing")
            return
        if known.text == text and not known.incomplete and not known.is_expired:
            done("")
            return
        try:
            claimed = self.checked(name, text)
        except InvalidToken as refusal:
            done(str(refusal))
            return

        def gathered(found: dict[str, Claimed]) -> None:
            self._log("DBG", f"Updating account claims: {claimed.label}")
            self._put([*found.values(), claimed])
            done("")

        _Gathering(self, gathered).add(claimed)

    def remove(self, name: str) -> None:
        """An account was deleted: nobody stays, nobody comes."""
        known = self.claimed.accounts.get(name)
        if known is not None:
            self._log("DBG", f"Disable account {name} due to remove")
            gone = Claimed(AccountClaims(sub=name, iss=known.claims.iss, name=known.claims.name), "", self.now_ns())
            self._expire(name)
            gone.is_expired = True
            self._put([gone])

    def believe(self, name: str) -> None:
        """Take an account for granted whose token is not there yet: the system account, from which it is pushed."""
        issuer = self.trust.operators[0].iss
        limits = Limits(subs=NO_LIMIT, data=NO_LIMIT, payload=NO_LIMIT, conn=NO_LIMIT, leaf=NO_LIMIT)
        self._put([Claimed(AccountClaims(sub=name, iss=issuer, nats=AccountPart(limits=limits)), "", self.now_ns())])

    def checked(self, name: str, text: str) -> Claimed:
        """A token, if it is one for this account that a trusted operator signed and that holds now.

        Raises:
            InvalidToken: it is not.
        """
        claims = decode_account(text)
        if claims.iss not in self.trust.keys or claims.sub != name:
            raise InvalidToken("account validation failed")
        if blocks(account_findings(claims, self.now_ns() // SECOND_NS), with_time=True):
            raise InvalidToken("account validation failed")
        return Claimed(claims, text, self.now_ns())

    def load(self, name: str) -> bool:
        """Get an account at a start, with what it imports; tells whether it is there."""
        found: dict[str, Claimed] = {}
        wanted = [name]
        while wanted:
            here = wanted.pop()
            if here in found or self.claims_of(here) is not None or not is_public_key(here, KeyKind.ACCOUNT):
                continue
            try:
                text = self.resolver.fetch_now(here)
                claimed = self.checked(here, text) if text else None
            except (OSError, InvalidToken) as error:
                self._log("WRN", f"Account fetch failed: {error}")
                claimed = None
            if claimed is not None:
                found[here] = claimed
                wanted += [entry.account for entry in claimed.claims.imports]
        self._put(found.values())
        return self.claims_of(name) is not None

    def fetch(self, name: str, done: Callable[[Claimed | None], None]) -> None:
        """Ask the resolver for an account."""
        if not is_public_key(name, KeyKind.ACCOUNT):
            self._log("WRN", "Account fetch failed: will only fetch valid account keys")
            done(None)
            return

        def fetched(text: str, error: str) -> None:
            if error:
                self._log("WRN", f"Account fetch failed: {error}")
                done(None)
                return
            try:
                claimed = self.checked(name, text)
            except InvalidToken as refusal:
                self._log("DBG", f"Account JWT lookup error: {refusal}")
                done(None)
                return
            done(claimed)

        self.resolver.fetch(name, fetched)

    def _put(self, found: Iterable[Claimed]) -> None:
        """Put accounts in place and wire them; then their clients take over what changed."""
        before = {claimed.name: self.claimed.accounts.get(claimed.name) for claimed in found}
        affected: set[str] = set()
        for claimed in found:
            affected |= self.claimed.put(claimed)
        if affected:
            self._resolve(affected)
        for claimed in found:
            if claimed.claims.exp:
                expire = partial(self._expire, claimed.name)
                self._deadlines.add(claimed.claims.exp * SECOND_NS, partial(self._is_in_place, claimed), expire)
            if before[claimed.name] is not None:
                self._renew_clients(claimed)

    def _resolve(self, names: Iterable[str]) -> None:
        now_s = self.now_ns() // SECOND_NS
        changed = {}
        for name in names:
            changed[name], problems = self.claimed.resolve(name, self._options, now_s)
            for problem in problems:
                self._log(problem.level, problem.text)
            claimed = self.claimed.accounts[name]
            if claimed.next_change_s:
                again = partial(self._resolve, [name])
                self._deadlines.add(claimed.next_change_s * SECOND_NS, partial(self._is_in_place, claimed), again)
        self._hub.topology.update(changed, remembers_routes=not self._options.disable_sublist_cache)
        for listener in self.on_changed:
            listener(changed)

    # --- clients --------------------------------------------------------------------------------------------------

    def _is_in_place(self, claimed: Claimed) -> bool:
        """Whether no other token has taken the place of this one."""
        return self.claimed.accounts.get(claimed.name) is claimed

    def _expire(self, name: str) -> None:
        self.claimed.accounts[name].is_expired = True
        account = self._hub.accounts.get(name)
        for connection in self._hub.connections_of(account) if account is not None else ():
            connection.close(CloseReason.AUTHENTICATION_EXPIRED, texts.ACCOUNT_AUTHENTICATION_EXPIRED)
        for listener in self.on_expired:
            listener(name)

    def _renew_clients(self, claimed: Claimed) -> None:
        """Let the clients of an account take over its present token; those that it does not allow go."""
        account = self._hub.accounts[claimed.name]
        limit = account.limits.max_connections
        for place, connection in enumerate(self._hub.connections_of(account)):
            identity = connection.identity
            if 0 <= limit <= place:
                self._hub.log("ERR", connection, texts.MAXIMUM_ACCOUNT_CONNECTIONS)
                connection.close(CloseReason.MAX_ACCOUNT_CONNECTIONS, texts.MAXIMUM_ACCOUNT_CONNECTIONS)
            else:
                # Mappings and traces may have come or gone with the token: what may be published is asked anew.
                connection.refresh_fast_path()
                if identity is not None and identity.token is not None:
                    self._renew(connection, identity, claimed.claims)

    def _renew(self, connection: ClientConnection, identity: Identity, claims: AccountClaims) -> None:
        present = self.verifier.present(identity, claims)
        if isinstance(present, Identity):
            connection.identity = present
            connection.apply_limits()
            if present is not identity:
                connection.renew_permissions(present.permissions)
            connection.check_subscription_limit()
        elif present.why == "revoked":
            connection.close(CloseReason.REVOCATION, texts.AUTHENTICATION_REVOKED)
        elif present.why == "violation":
            connection.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)
        else:
            connection.close(CloseReason.AUTHENTICATION_VIOLATION)

    # --- time -----------------------------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Wall clock."""
        return self._hub.clock.now_ns()

    def close(self) -> None:
        """Let no timer run on."""
        self._deadlines.close()


class _Gathering:
    """Accounts that are fetched together: one, and all that it imports from, as far as they are not known."""

    def __init__(self, mode: OperatorMode, done: Callable[[dict[str, Claimed]], None]) -> None:
        self._mode = mode
        self._done = done
        self._found: dict[str, Claimed] = {}
        self._wanted: set[str] = set()
        self._outstanding = 1  # until the caller has said everything

    def want(self, name: str) -> None:
        """Fetch an account."""
        self._ask(name)
        self._settle()

    def add(self, claimed: Claimed) -> None:
        """Fetch what an account imports that is here already."""
        self._wanted.add(claimed.name)
        self._ask_for_imports(claimed)
        self._settle()

    def _ask(self, name: str) -> None:
        if name in self._wanted:
            return
        self._wanted.add(name)
        self._outstanding += 1
        self._mode.fetch(name, self._fetched)

    def _ask_for_imports(self, claimed: Claimed) -> None:
        for entry in claimed.claims.imports:
            if self._mode.claims_of(entry.account) is None:
                self._ask(entry.account)

    def _fetched(self, claimed: Claimed | None) -> None:
        if claimed is not None:
            self._found[claimed.name] = claimed
            self._ask_for_imports(claimed)
        self._settle()

    def _settle(self) -> None:
        self._outstanding -= 1
        if self._outstanding == 0:
            self._done(self._found)
