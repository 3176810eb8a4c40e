"""The keys of OpenID issuers, and the logins that wait for them.

    decide ──► key known ──────────────────────────────────► judged at once
           ──► key not known ──► fetched, with others ──► judged when it came, or denied

Keys are fetched when the server starts, again every `refresh`, and when a token names one that is not known: then at
most once in `REFETCH_MIN_NS`, however many tokens say so. A set that cannot be fetched again is used for another
`STALE_MAX_NS`, so that an issuer that is down for an hour locks nobody out.

Nothing waits but the logins that need a key that is not here: they are bounded by the connections, and each by the time
in which a client has to authenticate. The fetch itself is the edge's, which bounds its time and size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from slipstream.auth.identity import Denied, Granted
from slipstream.auth.oidc.keys import UnusableKeys, parse_keys
from slipstream.config.checker import quote
from slipstream.units import HOUR_NS, SECOND_NS

if TYPE_CHECKING:
    from slipstream.auth.authenticator import Authenticator
    from slipstream.auth.identity import ConnectionKind, NeedsIssuer
    from slipstream.auth.oidc.keys import IssuerKey, KeySet
    from slipstream.config.oidc_options import OidcOptions
    from slipstream.routing.deadlines import Cancellable, Timers

__all__ = ["REFETCH_MIN_NS", "STALE_MAX_NS", "KeyFetcher", "OpenIdLogins"]

REFETCH_MIN_NS: Final = 5 * SECOND_NS  # between fetches that tokens ask for: strangers can make up names of keys
STALE_MAX_NS: Final = 24 * HOUR_NS  # a key that its owner has withdrawn must not count for ever

Decided = Callable[[Granted | Denied], None]
Fetched = Callable[[bytes, str], None]  # a key set, or nothing and why


class KeyFetcher(Protocol):
    """Gets the key set of an issuer from wherever it is."""

    def fetch(self, issuer: OidcOptions, done: Fetched, /) -> None:
        """Get it; `done` is called later, on the loop."""
        ...

    def close(self) -> None: ...


class OpenIdLogins:
    """The issuers of one server."""

    def __init__(
        self,
        authenticator: Callable[[], Authenticator],
        fetcher: KeyFetcher,
        timers: Timers,
        now_ns: Callable[[], int],
        log: Callable[[str, str], object],
    ) -> None:
        self._authenticator = authenticator
        self._fetcher = fetcher
        self._timers = timers
        self._now_ns = now_ns
        self._log = log
        self._issuers: dict[str, _Issuer] = {}

    def use(self, issuers: tuple[OidcOptions, ...]) -> None:
        """Believe these issuers from now on; those that are as before keep their keys."""
        before, self._issuers = self._issuers, {}
        for options in issuers:
            kept = before.get(options.issuer)
            if kept is not None and _source(kept.options) == _source(options):
                del before[options.issuer]
                kept.options = options
                self._issuers[options.issuer] = kept
            else:
                self._issuers[options.issuer] = _Issuer(options, self._fetcher, self._timers, self._now_ns, self._log)
        for gone in before.values():
            gone.close()

    def decide(self, needed: NeedsIssuer, kind: ConnectionKind, done: Decided) -> None:
        """Decide about a token; `done` is called at once if the key is here."""
        issuer = self._issuers.get(needed.token.issuer)
        if issuer is None:
            done(Denied("OpenID: the issuer has changed"))
            return
        issuer.key(needed.token.key_id, needed.token.algorithm, partial(self._judge, needed, kind, done))

    def _judge(self, needed: NeedsIssuer, kind: ConnectionKind, done: Decided, key: IssuerKey | None, why: str) -> None:
        rules = self._authenticator().openid
        if key is None or rules is None:
            done(Denied(f"OpenID: {why or 'the issuer has changed'}"))
        else:
            done(rules.decided(needed, key, kind, self._now_ns()))

    def close(self) -> None:
        """Fetch nothing more."""
        for issuer in self._issuers.values():
            issuer.close()
        self._fetcher.close()


def _source(options: OidcOptions) -> tuple[object, ...]:
    """What says where the keys come from."""
    return options.issuer, options.jwks, options.tls


_Found = Callable[["IssuerKey | None", str], None]


class _Issuer:
    """The keys of one issuer."""

    def __init__(
        self,
        options: OidcOptions,
        fetcher: KeyFetcher,
        timers: Timers,
        now_ns: Callable[[], int],
        log: Callable[[str, str], object],
    ) -> None:
        self.options = options
        self._fetcher = fetcher
        self._timers = timers
        self._now_ns = now_ns
        self._log = log
        self._keys: KeySet | None = None
        self._fetched_ns = 0  # when the keys came
        self._asked_ns = 0  # when they were asked for last
        self._is_fetching = self._is_closed = False
        self._why = ""  # the last fetch failed
        self._waiting: list[tuple[str, str, _Found]] = []
        self._timer: Cancellable | None = None
        self._fetch()

    def key(self, key_id: str, algorithm: str, found: _Found) -> None:
        """Find a key; `found` gets it, or the reason why there is none, at once or when keys have come."""
        now_ns = self._now_ns()
        if self._keys is not None and now_ns - self._fetched_ns > STALE_MAX_NS:
            self._keys = None
        key = None if self._keys is None else self._keys.find(key_id, algorithm)
        if key is not None:
            found(key, "")
            return
        # A clock that was set back must not keep keys away.
        is_recent = 0 <= now_ns - self._asked_ns < REFETCH_MIN_NS
        if self._is_fetching or not is_recent:
            self._waiting.append((key_id, algorithm, found))
            self._fetch()
        else:
            found(None, self._missing())

    def _missing(self) -> str:
        return f"no keys of the issuer: {self._why}" if self._keys is None else "the key of the token is not known"

    def _fetch(self) -> None:
        if self._is_fetching:
            return
        self._is_fetching = True
        self._asked_ns = self._now_ns()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fetcher.fetch(self.options, self._came)

    def _came(self, document: bytes, why: str) -> None:
        self._is_fetching = False
        if self._is_closed:
            return
        before = self._why
        self._why = why
        if not why:
            try:
                self._keys = parse_keys(document)
                self._fetched_ns = self._now_ns()
            except UnusableKeys as unusable:
                self._why = str(unusable)
        if self._why and self._why != before:
            self._log("WRN", f"Keys of the OpenID issuer {quote(self.options.issuer)} cannot be had: {self._why}")
        elif before and not self._why:
            self._log("INF", f"Keys of the OpenID issuer {quote(self.options.issuer)} are here again")
        self._timer = self._timers.call_later(self._pause_ns(), self._fetch)
        waiting, self._waiting = self._waiting, []
        for key_id, algorithm, found in waiting:
            key = None if self._keys is None else self._keys.find(key_id, algorithm)
            found(key, "" if key is not None else self._missing())

    def _pause_ns(self) -> int:
        """Until the next fetch; sooner if the last one failed."""
        return min(self.options.refresh_ns, REFETCH_MIN_NS) if self._why else self.options.refresh_ns

    def close(self) -> None:
        """The issuer is believed no longer; whoever waits for it is refused."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        waiting, self._waiting = self._waiting, []
        for _, _, found in waiting:
            found(None, "the issuer has changed")
