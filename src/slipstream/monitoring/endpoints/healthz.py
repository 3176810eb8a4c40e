"""/healthz: may this server get traffic, and is its JetStream in order?

Checks in order: the parameters; the listener (`js-server-only` stops here); whether JetStream is configured, and runs
(`js-enabled-only` stops here); every account, stream and consumer, or the ones named.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from slipstream.monitoring.facts import Facts
from slipstream.monitoring.query import UrlQuery

__all__ = ["Health", "HealthError", "HealthzOptions", "healthz", "healthz_options"]

_NOT_ENABLED = "JetStream not enabled (10076)"

ProblemKind = Literal["CONNECTION", "BAD_REQUEST", "JETSTREAM", "ACCOUNT", "STREAM", "CONSUMER"]


class HealthzOptions(msgspec.Struct, kw_only=True, rename="kebab"):
    """What to look at. `js_enabled` is the older name of `js_enabled_only`."""

    js_enabled: bool = False
    js_enabled_only: bool = False
    js_server_only: bool = False
    js_meta_only: bool = False
    account: str = ""
    stream: str = ""
    consumer: str = ""
    details: bool = False


class HealthError(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One thing that is wrong."""

    type: ProblemKind
    account: str = ""
    stream: str = ""
    consumer: str = ""
    error: str = ""


class Health(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The verdict. Over HTTP the status code is that of the response and not repeated."""

    status: str
    status_code: int = 0
    error: str = ""
    errors: list[HealthError] = []


def healthz_options(query: UrlQuery) -> HealthzOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    return HealthzOptions(
        js_enabled=query.flag("js-enabled"),
        js_enabled_only=query.flag("js-enabled-only"),
        js_server_only=query.flag("js-server-only"),
        js_meta_only=query.flag("js-meta-only"),
        details=query.flag("details"),
        account=query.text("account"),
        stream=query.text("stream"),
        consumer=query.text("consumer"),
    )


def healthz(facts: Facts, options: HealthzOptions) -> Health:
    """The verdict now."""
    found = _first_fault(facts, options)
    if found is not None:
        code, status, problem = found
        return _verdict([problem], code, status, details=options.details)
    jetstream = facts.jetstream
    stops_early = options.js_server_only or options.js_enabled or options.js_enabled_only
    if stops_early or jetstream is None or not facts.options.jetstream.enabled:
        return _verdict([], 200, "ok", details=options.details)
    problems, code = [], 503
    for fault in jetstream.problems(options.account, options.stream, options.consumer):
        problems.append(
            HealthError(
                type=fault.kind,
                account=fault.account,
                stream=fault.stream,
                consumer=fault.consumer,
                error=fault.text,
            )
        )
        if fault.missing:
            code = 404
        if not options.details:
            break
    return _verdict(problems, code, "unavailable", details=options.details)


def _first_fault(facts: Facts, options: HealthzOptions) -> tuple[int, str, HealthError] | None:
    """What keeps the check from getting to JetStream's contents: status code, status, problem."""
    if options.stream and not options.account:
        return 400, "error", _bad_request("account", "stream")
    if options.consumer and not options.stream:
        return 400, "error", _bad_request("stream", "consumer")
    if not facts.server.running:
        return (
            500,
            "error",
            HealthError(type="CONNECTION", error="failed to be ready for connections after 1ms: server"),
        )
    wants_jetstream = facts.options.jetstream.enabled and not options.js_server_only
    if wants_jetstream and (facts.jetstream is None or not facts.jetstream.enabled):
        return 503, "unavailable", HealthError(type="JETSTREAM", error=_NOT_ENABLED)
    return None


def _bad_request(missing: str, checked: str) -> HealthError:
    return HealthError(type="BAD_REQUEST", error=f'"{missing}" must not be empty when checking {checked} health')


def _verdict(problems: list[HealthError], code: int, status: str, *, details: bool) -> Health:
    if not problems:
        return Health(status="ok", status_code=200)
    if details:
        return Health(status="error", status_code=code, errors=problems)
    return Health(status=status, status_code=code, error=problems[0].error)
