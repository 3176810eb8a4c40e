"""Where the tokens of accounts come from: the configuration, a directory, or an address.

Files and HTTP are waited for in threads; what was found is told on the loop. `fetch_now` is for a start, when nobody
is there who could be kept waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from slipstream.auth.jwt.token import TOKEN_BYTES_MAX
from slipstream.server.logins.token_directory import DirectoryError, TokenDirectory
from slipstream.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS

if TYPE_CHECKING:
    from slipstream.config.listener_options import TLSOptions
    from slipstream.config.options import ResolverOptions

__all__ = ["DirectoryResolver", "MemoryResolver", "UrlResolver"]

FETCH_TIMEOUT_NS: Final = 1_900 * MILLISECOND_NS  # as nats-server: less than a client waits for its CONNECT
_HTTP_THREADS: Final = 4  # addresses asked at the same time
_EXPIRE_EVERY_NS: Final = MINUTE_NS

T = TypeVar("T")
Found = Callable[[str, str], None]  # the token, or nothing and why


class Loop(Protocol):
    """What runs threads and timers."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    def call_later(self, delay_ns: int, callback: Callable[[], object], /) -> asyncio.TimerHandle: ...


class MemoryResolver:
    """Tokens of the configuration."""

    def __init__(self, preload: Mapping[str, str]) -> None:
        self._tokens = dict(preload)

    def fetch(self, name: str, done: Found) -> None:
        """Look a token up."""
        text = self._tokens.get(name, "")
        done(text, "" if text else "account missing")

    def fetch_now(self, name: str) -> str:
        """The same, at once."""
        return self._tokens.get(name, "")

    def close(self) -> None:
        """Nothing is open."""


class _Threads:
    """Work off the loop."""

    def __init__(self, turns: Loop, threads: int) -> None:
        self._turns = turns
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="slipstream-accounts")

    def run(self, job: Callable[[], T], done: Callable[[T | None, str], None]) -> None:
        """Do something in a thread; `done` gets the result on the loop, or nothing and the reason."""

        def finished(result: asyncio.Future[T]) -> None:
            if result.cancelled():
                return
            error = result.exception()
            if error is None:
                done(result.result(), "")
            else:
                done(None, _reason(error))

        self._turns.loop.run_in_executor(self._executor, job).add_done_callback(finished)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


def _reason(error: BaseException) -> str:
    if isinstance(error, DirectoryError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


class DirectoryResolver:
    """Tokens in a directory, `full` or `cache`. One thread looks after it, so calls come one at a time."""

    def __init__(self, options: ResolverOptions, turns: Loop, directory: TokenDirectory) -> None:
        self.is_cache = options.type == "cache"
        self.interval_ns = options.interval_ns or MINUTE_NS
        self.timeout_ns = options.timeout_ns or FETCH_TIMEOUT_NS
        self.directory = directory
        # Asks others for an account that is not here; set by whoever can.
        self.ask_others: Callable[[str, Found], None] | None = None
        self._turns = turns
        self._threads = _Threads(turns, 1)
        self._expire_every_ns = min(options.ttl_ns // 2 or _EXPIRE_EVERY_NS, _EXPIRE_EVERY_NS)
        self._timer: asyncio.TimerHandle | None = None
        self._expire_later()

    @property
    def allows_delete(self) -> bool:
        """Whether tokens may be deleted."""
        return self.directory.allows_delete

    @property
    def digest(self) -> bytes:
        """Tells whether two directories hold the same."""
        return self.directory.digest

    def fetch(self, name: str, done: Found) -> None:
        """Look for the file of an account."""

        def loaded(text: str | None, error: str) -> None:
            if text:
                done(text, "")
            elif self.is_cache and self.ask_others is not None and not error:
                self.ask_others(name, done)
            else:
                done("", error or "account jwt not found")

        self._threads.run(lambda: self.directory.load(name), loaded)

    def fetch_now(self, name: str) -> str:
        """The token of an account, at a start."""
        return self.directory.load(name)

    def save(self, name: str, text: str, done: Callable[[bool | None, str], None]) -> None:
        """Keep a token; `done` is told whether it is another than before, or nothing and why not."""
        self._threads.run(lambda: self.directory.save(name, text), done)

    def merge(self, tokens: Iterable[tuple[str, str]], done: Callable[[list[str] | None, str], None]) -> None:
        """Keep those of these tokens that are newer; `done` is told which, or nothing and why not."""
        self._threads.run(lambda: [name for name, text in tokens if self.directory.save_if_newer(name, text)], done)

    def delete(self, names: Iterable[str], done: Callable[[list[str] | None, str], None]) -> None:
        """Remove tokens; `done` is told which were there."""
        self._threads.run(lambda: [name for name in names if self.directory.delete(name)], done)

    def tokens(self, done: Callable[[list[tuple[str, str]] | None, str], None]) -> None:
        """All accounts with their tokens."""
        self._threads.run(lambda: list(self.directory.tokens()), done)

    def _expire_later(self) -> None:
        self._timer = self._turns.call_later(self._expire_every_ns, self._expire)

    def _expire(self) -> None:
        self._threads.run(self.directory.expire, lambda _result, _error: None)
        self._expire_later()

    def close(self) -> None:
        """Start nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._threads.close()


class UrlResolver:
    """Tokens behind an address: `<address>/<public key>`."""

    def __init__(self, url: str, tls: TLSOptions | None, turns: Loop) -> None:
        self._url = url if url.endswith("/") else f"{url}/"
        self._tls = tls
        self._threads = _Threads(turns, _HTTP_THREADS)
        self._context: Any = None

    def fetch(self, name: str, done: Found) -> None:
        """Ask for the token of an account."""
        self._threads.run(lambda: self.fetch_now(name), lambda text, error: done(text or "", error))

    def fetch_now(self, name: str) -> str:
        """The same, and wait for it.

        Raises:
            OSError: there is no answer, or not a good one; with nats-server's text.
        """
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import HTTPSHandler, ProxyHandler, build_opener

        url = self._url + name
        shown = f'could not fetch <"{_without_password(url)}">'
        try:
            # Straight to the address, whatever the environment says about proxies.
            opener = build_opener(ProxyHandler({}), HTTPSHandler(context=self._client_context()))
            with opener.open(url, timeout=FETCH_TIMEOUT_NS / SECOND_NS) as answer:
                body = answer.read(TOKEN_BYTES_MAX + 1)
                if answer.length and len(body) <= TOKEN_BYTES_MAX:
                    raise OSError("unexpected EOF")
        except HTTPError as error:
            raise OSError(f"{shown}: {error.code} {error.reason}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise OSError(f"{shown}: {getattr(error, 'reason', None) or error}") from None
        text: str = body.decode("utf-8", "replace")
        return text

    def _client_context(self) -> Any:
        if self._context is None and self._url.lower().startswith("https:"):
            from slipstream.server.sockets.tls import client_context

            self._context = client_context(self._tls)
        return self._context

    def close(self) -> None:
        """Wait for nothing more."""
        self._threads.close()


def _without_password(url: str) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return "xxxxx"
    if parts.password is None:
        return url
    return url.replace(f":{parts.password}@", ":xxxxx@", 1)
