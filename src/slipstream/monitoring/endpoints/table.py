"""The table of monitoring paths and what answers them: path and query in, status, type and body out.

No endpoint asks who calls: whoever reaches the port may read. Nothing here changes the server.

    Counted   http_req_stats of /varz counts requests by path: some endpoints before their parameters are looked at,
              some only when these make sense, some never. So does nats-server.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from slipstream.monitoring.endpoints.accountz import accountz, accountz_options
from slipstream.monitoring.endpoints.accstatz import accstatz, accstatz_options
from slipstream.monitoring.endpoints.connz import connz, connz_options
from slipstream.monitoring.endpoints.dashboard import PATH, SOCKET_PATH, Dashboard, base_path
from slipstream.monitoring.endpoints.exporter import prefix_of
from slipstream.monitoring.endpoints.expvarz import expvarz
from slipstream.monitoring.endpoints.gatewayz import gatewayz, gatewayz_options
from slipstream.monitoring.endpoints.healthz import healthz, healthz_options
from slipstream.monitoring.endpoints.index import index
from slipstream.monitoring.endpoints.ipqueuesz import ipqueuesz, ipqueuesz_options
from slipstream.monitoring.endpoints.jsz import NotLeader, jsz, jsz_options
from slipstream.monitoring.endpoints.leafz import leafz, leafz_options
from slipstream.monitoring.endpoints.metrics import metrics
from slipstream.monitoring.endpoints.raftz import NO_RAFT, raftz, raftz_options
from slipstream.monitoring.endpoints.routez import routez, routez_options
from slipstream.monitoring.endpoints.stacksz import stacksz
from slipstream.monitoring.endpoints.subsz import subsz, subsz_options
from slipstream.monitoring.endpoints.varz import varz
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.gotext import encode, encode_indented
from slipstream.monitoring.query import BadRequest, UrlQuery
from slipstream.monitoring.reply import Reply
from slipstream.monitoring.worker import Steps, in_steps

__all__ = ["ENDPOINTS", "Endpoints"]

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_ANYWHERE = (("Access-Control-Allow-Origin", "*"),)


class Counted(Enum):
    """When a request is counted."""

    FIRST = "first"
    WHEN_READ = "when read"
    NEVER = "never"


class Endpoint(NamedTuple):
    """One path: how to read its parameters, how to answer, when to count, and its words on the index page."""

    read: Callable[[UrlQuery], Any]
    answer: Callable[[Facts, Any], Reply | Steps[Reply]]
    counted: Counted
    words: str = ""
    counted_as: str = ""  # another path to count under


def _json(body: object, status: int = 200) -> Reply:
    return Reply(status, _JSON, encode_indented(body), _ANYWHERE)


def _shown(answer: Callable[[Facts, Any], object]) -> Callable[[Facts, Any], Steps[Reply]]:
    def answered(facts: Facts, options: Any) -> Steps[Reply]:
        return _json((yield from in_steps(answer(facts, options))))

    return answered


def _nothing(_query: UrlQuery) -> None:
    return None


def _health(facts: Facts, options: Any) -> Reply:
    health = healthz(facts, options)
    status, health.status_code = health.status_code, 0
    failure = health.error or (f"{len(health.errors)} errors" if health.errors else "")
    # Said once: whoever asks every second shall not fill the log.
    if failure and failure != facts.health_failure:
        facts.server.log("WRN", f'Healthcheck failed: "{failure}"')
    facts.health_failure = failure
    return Reply(status, _JSON, encode(health), _ANYWHERE)


def _queues(facts: Facts, options: Any) -> Reply:
    return Reply(200, _JSON, encode_indented(ipqueuesz(facts, options), 3), _ANYWHERE)


def _groups(facts: Facts, options: Any) -> Reply:
    found = raftz(facts, options)
    if found is None:
        return Reply(404, _TEXT, NO_RAFT.encode())
    return Reply(200, _JSON, encode_indented(found, 3), _ANYWHERE)


def _metrics(facts: Facts, prefix: str) -> Steps[Reply]:
    return Reply(200, "text/plain; version=0.0.4; charset=utf-8", (yield from metrics(facts, prefix)))


ENDPOINTS: dict[str, Endpoint] = {
    "/varz": Endpoint(_nothing, _shown(lambda facts, _: varz(facts)), Counted.FIRST, "General"),
    "/jsz": Endpoint(jsz_options, _shown(jsz), Counted.FIRST, "JetStream"),
    "/connz": Endpoint(connz_options, _shown(connz), Counted.WHEN_READ, "Connections"),
    "/accountz": Endpoint(accountz_options, _shown(accountz), Counted.FIRST, "Accounts"),
    "/accstatz": Endpoint(accstatz_options, _shown(accstatz), Counted.FIRST, "Traffic of accounts"),
    "/subsz": Endpoint(subsz_options, _shown(subsz), Counted.FIRST, "Subscriptions"),
    "/subscriptionsz": Endpoint(subsz_options, _shown(subsz), Counted.FIRST, counted_as="/subsz"),
    "/routez": Endpoint(routez_options, _shown(routez), Counted.WHEN_READ, "Routes"),
    "/leafz": Endpoint(leafz_options, _shown(leafz), Counted.FIRST, "Leaf nodes"),
    "/gatewayz": Endpoint(gatewayz_options, _shown(gatewayz), Counted.FIRST, "Gateways"),
    "/raftz": Endpoint(raftz_options, _groups, Counted.NEVER, "Raft groups"),
    "/healthz": Endpoint(healthz_options, _health, Counted.FIRST, "Health"),
    "/metrics": Endpoint(prefix_of, _metrics, Counted.FIRST, "Metrics for Prometheus"),
    "/ipqueuesz": Endpoint(ipqueuesz_options, _queues, Counted.NEVER, "Inner queues"),
    "/stacksz": Endpoint(_nothing, lambda _facts, _: Reply(200, _JSON, stacksz(), _ANYWHERE), Counted.NEVER, "Stacks"),
    "/debug/vars": Endpoint(
        _nothing,
        lambda facts, _: Reply(200, f"{_JSON}; charset=utf-8", encode_indented(expvarz(facts))),
        Counted.NEVER,
        "Process variables",
    ),
}


class Endpoints:
    """The endpoints of one server below its base path."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._dashboard = Dashboard()

    def reply(self, path: str, query: str, known: str = "") -> Steps[Reply]:
        """The answer to a request, made in steps; bad ones get an answer too.

        Args:
            path: decoded.
            query: as it came.
            known: If-None-Match.
        """
        clean = posixpath.normpath("/" + path.lstrip("/"))
        if clean not in (path, path.rstrip("/")):
            location = _escaped(clean) + (f"?{query}" if query else "")
            return Reply(307, _TEXT, b"Temporary Redirect\n", (("Location", location),))
        base = base_path(self._facts.options.http_base_path)
        if path == (base or "/"):
            self._count("/")
            links = [(endpoint.words, base + name) for name, endpoint in ENDPOINTS.items() if endpoint.words]
            if self._facts.options.serves_dashboard:
                links.insert(0, ("Dashboard", f"{base}{PATH}/"))
            return Reply(200, "text/html; charset=utf-8", index(self._facts, links))
        if self._facts.options.serves_dashboard and f"{path}/".startswith(f"{base}{PATH}/"):
            self._count(PATH)
            return self._dashboard.reply(path[len(base) :], base, known)
        endpoint = ENDPOINTS.get(path[len(base) :]) if path.startswith(f"{base}/") else None
        if endpoint is None:
            return Reply(404, _TEXT, b"404 page not found\n", (("X-Content-Type-Options", "nosniff"),))
        return (yield from self._answer(path[len(base) :], endpoint, query))

    def is_socket(self, path: str) -> bool:
        """Whether the dashboard's page asks for its WebSocket at this path."""
        return path == base_path(self._facts.options.http_base_path) + SOCKET_PATH

    def _answer(self, name: str, endpoint: Endpoint, query: str) -> Steps[Reply]:
        counted = endpoint.counted_as or name
        try:
            if endpoint.counted is Counted.FIRST:
                self._count(counted)
            options = endpoint.read(UrlQuery(query))
            if endpoint.counted is Counted.WHEN_READ:
                self._count(counted)
            return (yield from in_steps(endpoint.answer(self._facts, options)))
        except (BadRequest, NotLeader) as error:
            # The text repeats what the client sent; nobody should take it for a page.
            text = str(error).encode("utf-8", "surrogateescape")
            return Reply(400, _TEXT, text, (("X-Content-Type-Options", "nosniff"),))

    def _count(self, path: str) -> None:
        counts = self._facts.http_requests
        counts[path] = counts.get(path, 0) + 1


def _escaped(path: str) -> str:
    """A decoded path as it stands in a URL."""
    from urllib.parse import quote

    return quote(path, errors="surrogateescape")
