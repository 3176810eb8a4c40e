"""What the configuration declares is made so, when the server starts and after a reload (ADR 45).

For each account: ask JetStream what there is, plan, and do the steps, all through the API that clients use; so limits,
advisories and the audit trail hold, and there is no second way to make a stream. What JetStream refuses is told in the
log with the place in the file, and the rest is done: a stream that does not fit its account is no reason to keep all
others from their clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from slipstream.declared.config_block import read_block
from slipstream.declared.plan import Infos, Step, consumers_needed, plan
from slipstream.ids import new_nuid
from slipstream.jetstream.api.subjects import API_PREFIX
from slipstream.server.limits import DECLARED_AGAIN_S, DECLARED_ANSWER_S, DECLARED_START_S

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.member import Member
    from slipstream.config.declared_options import DeclaredOptions
    from slipstream.declared.reading import Declared
    from slipstream.server.server import Server

__all__ = ["DeclaredStreams"]

_DONE: Final = {"create": "Created", "update": "Updated"}
_PASSING: Final = (10005, 10008)  # servers of a cluster that are not there yet


class _Refused(Exception):
    """JetStream says no."""

    def __init__(self, text: str, err_code: int) -> None:
        super().__init__(text)
        self.is_lasting = err_code not in _PASSING


class _ApiCalls:
    """Calls of an account's API by the server itself, one after the other."""

    def __init__(self, server: Server, account: Account) -> None:
        self._server = server
        self._account = account
        self._inbox = f"_INBOX.{new_nuid(server.hub.rng)}".encode()
        self._calls = 0
        self._answer: asyncio.Future[bytes] | None = None
        self._subscription = account.subscribe(self._inbox + b".*", self._answered)

    def close(self) -> None:
        """Listen no more."""
        self._account.remove(self._subscription)

    async def call(self, verb: str, body: object = None) -> dict[str, Any]:
        """Ask, and return the answer.

        Raises:
            _Refused: it is an error.
            TimeoutError: there is none.
        """
        subject = f"{API_PREFIX}{verb}".encode()
        payload = b"" if body is None else msgspec.json.encode(body)
        self._calls += 1
        reply = b"%s.%d" % (self._inbox, self._calls)
        self._answer = self._server.turns.loop.create_future()

        def ask() -> None:
            route = self._account.interest.find_route(subject)
            self._account.delivery.deliver(route, None, subject, reply, 0, payload)

        self._server.turns.run_and_flush(ask)
        async with asyncio.timeout(DECLARED_ANSWER_S):
            answer: dict[str, Any] = msgspec.json.decode(await self._answer)
        if "error" in answer:
            raise _Refused(answer["error"].get("description", "unknown error"), answer["error"].get("err_code", 0))
        return answer

    async def pages(self, verb: str, key: str) -> list[dict[str, Any]]:
        """All entries of a listing."""
        found: list[dict[str, Any]] = []
        while True:
            page = await self.call(verb, {"offset": len(found)})
            entries = page.get(key) or []
            found += entries
            if not entries or len(found) >= page.get("total", 0):
                return found

    def _answered(
        self, _publisher: Member | None, subject: bytes, _reply: bytes | None, header_size: int, body: bytes
    ) -> None:
        late = not subject.endswith(b".%d" % self._calls)
        if self._answer is not None and not self._answer.done() and not late:
            self._answer.set_result(body[header_size:])


class DeclaredStreams:
    """Makes what is declared; done once, and begun anew by a reload."""

    def __init__(self, server: Server, declared: Mapping[str, DeclaredOptions]) -> None:
        """Begin at once, on the server's loop.

        Args:
            server: whose JetStream runs.
            declared: what each account should have.
        """
        self._server = server
        self._told: set[str] = set()  # what was refused and may be possible later
        self._task = server.turns.loop.create_task(self._make_all(dict(declared)))

    async def wait(self) -> None:
        """Wait until everything is tried; if that takes too long it goes on without anybody waiting."""
        # The answers of other servers of a cluster come by routes, which are not there before the start goes on.
        timeout_s = 0.0 if self._server.options.cluster.port else DECLARED_START_S
        _, pending = await asyncio.wait((self._task,), timeout=timeout_s)
        if pending and timeout_s:
            self._server.log("WRN", f"Declared streams are not all there after {timeout_s:.0f}s; the start goes on")

    def stop(self) -> None:
        """Leave the rest undone."""
        self._task.cancel()

    async def _make_all(self, declared: Mapping[str, DeclaredOptions]) -> None:
        for name, options in declared.items():
            try:
                await self._make(name, read_block(options.block))
            except Exception as error:
                self._server.turns.report(f"Declared streams of account '{name}'", error)

    async def _make(self, name: str, declared: Declared) -> None:
        calls = _ApiCalls(self._server, self._server.hub.accounts[name])
        told = False
        try:
            while True:
                try:
                    if not await self._do(name, calls, await self._steps(calls, declared)):
                        await asyncio.sleep(DECLARED_AGAIN_S)
                        continue
                except TimeoutError:
                    # Nobody answers, as in a cluster without a leader: what was done is not planned again.
                    if not told:
                        self._server.log("WRN", f"Declared streams of account '{name}' wait: JetStream does not answer")
                    told = True
                except _Refused as refused:
                    self._server.log("ERR", f"Declared streams of account '{name}' can not be compared: {refused}")
                    return
                else:
                    return
        finally:
            calls.close()

    async def _steps(self, calls: _ApiCalls, declared: Declared) -> list[Step]:
        streams = _by_name(await calls.pages("STREAM.LIST", "streams"))
        consumers: dict[str, Infos] = {}
        for stream in consumers_needed(declared, streams):
            consumers[stream] = _by_name(await calls.pages(f"CONSUMER.LIST.{stream}", "consumers"))
        return plan(declared, streams, consumers)

    async def _do(self, name: str, calls: _ApiCalls, steps: Iterable[Step]) -> bool:
        """Do what is planned; False: something was refused that may be possible later."""
        is_done = True
        for step in steps:
            try:
                await calls.call(step.verb, step.body)
            except _Refused as refused:
                is_done = is_done and refused.is_lasting
                problem = f"{step.place}: Declared {step.what} of account '{name}' was not {step.action}d: {refused}"
                if problem not in self._told:
                    self._told.add(problem)
                    self._server.log("ERR", problem)
            else:
                changes = f" ({', '.join(step.changes)})" if step.action == "update" else ""
                self._server.log("INF", f"{_DONE[step.action]} declared {step.what} of account '{name}'{changes}")
        return is_done


def _by_name(infos: Iterable[dict[str, Any]]) -> Infos:
    """Infos of streams or consumers by their names."""
    return {info.get("name") or info["config"]["name"]: info for info in infos}
