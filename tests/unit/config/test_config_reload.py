"""What a reload may change, and what it refuses."""

from __future__ import annotations

import pytest

from slipstream.config import reload
from slipstream.config.keys.server import SERVER
from slipstream.config.options import Options
from slipstream.config.reload import ReloadAction, ReloadPlan, diff
from support.config_loading import options

BASE = 'port: 4222, debug: false, ping_interval: "1m"\n'


def _diff(before: str, after: str) -> ReloadPlan:
    return diff(options(BASE + before), options(BASE + after))


def test_the_same_file_changes_nothing() -> None:
    assert _diff("accounts { A { users: [{user: a}] } }", "accounts {\n A { users: [{user: a}] } }") == ReloadPlan()


@pytest.mark.parametrize(
    ("before", "after", "kind", "field"),
    [
        ("", "authorization { user: a, password: b }", "auth", "authorization"),
        ("accounts { A {} }", "accounts { B {} }", "auth", "accounts"),
        ("", "mappings { a: b }", "auth", "mappings"),
        ("", "tls { timeout: 5 }", "tls", "tls"),
        ("websocket { tls {} }", "websocket { tls { timeout: 5 } }", "tls", "websocket.tls"),
        ("", "max_connections: 5", "limits", "max_connections"),
        ("", "max_payload: 5", "limits", "max_payload"),
        ("", "max_control_line: 5", "limits", "max_control_line"),
        ("", "max_pending: 5", "limits", "max_pending"),
        ("", 'ping_interval: "5s"', "timers", "ping_interval_ns"),
        ("", "ping_max: 5", "timers", "ping_max"),
        ("", 'write_deadline: "5s"', "timers", "write_deadline_ns"),
        ("", "debug: true", "trace", "debug"),
        ("", "logfile: x", "logging", "logfile"),
        ("", "pidfile: x", "files", "pidfile"),
        ("", 'lame_duck_duration: "50s"', "lame_duck", "lame_duck_duration_ns"),
        ("", "server_tags: x", "identity", "server_tags"),
    ],
)
def test_hot(before: str, after: str, kind: str, field: str) -> None:
    plan = _diff(before, after)
    assert plan.refusals == ()
    assert ReloadAction(kind, (field,)) in plan.actions  # type: ignore[arg-type]
    assert field in plan.changed


def test_actions_are_grouped() -> None:
    plan = _diff("", 'debug: true, trace: true, max_payload: 5, pidfile: "x"')
    assert plan.actions == (
        ReloadAction("trace", ("debug", "trace")),
        ReloadAction("files", ("pidfile",)),
        ReloadAction("limits", ("max_payload",)),
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "port: 4333", "config reload not supported for Port: old=4222, new=4333"),
        ("", "host: a, http_port: 0", "config reload not supported for Host: old=0.0.0.0, new=a"),
        ("server_name: a", "server_name: b", "config reload not supported for ServerName: old=a, new=b"),
        ("", "http_port: 8222", "config reload not supported for HTTPPort: old=0, new=8222"),
        ("", "allow_non_tls: true", "config reload not supported for AllowNonTLS: old=false, new=true"),
        ("", "write_timeout: close", "config reload not supported for WriteTimeout: old=default, new=close"),
        (
            "websocket { port: 80, no_tls: true }",
            "websocket { port: 81, no_tls: true }",
            'config reload not supported for Websocket: field "port": old=80, new=81',
        ),
        (
            "websocket { port: 80, authorization { user: u, password: one } }",
            "websocket { port: 80, authorization { user: u, password: two } }",
            'config reload not supported for Websocket: field "password": old=[REDACTED], new=[REDACTED]',
        ),
        (
            'leafnodes { port: -1, reconnect: "1s" }',
            'leafnodes { port: -1, reconnect: "90s" }',
            'config reload not supported for LeafNode: field "reconnect_ns": old=1s, new=1m30s',
        ),
        (
            "store_dir: a, jetstream: true",
            "store_dir: b, jetstream: true",
            "config reload not supported for jetstream storage directory",
        ),
        (
            "jetstream { domain: a }",
            "jetstream { domain: b }",
            "config reload not supported for JetStreamDomain: old=a, new=b",
        ),
        (
            "jetstream { max_mem: 2 }",
            "jetstream { max_mem: 1 }",
            "config reload not supported for decreasing jetstream max memory and store",
        ),
        (
            "jetstream { max_mem: 2 }",
            "jetstream: true",
            "config reload not supported for jetstream max memory and max store",
        ),
        (
            "jetstream: true",
            "jetstream { max_mem: 2 }",
            "config reload not supported for jetstream dynamic max memory and store",
        ),
        ("", "cluster { port: 1 }", "config reload not supported for cluster host: old=, new=0.0.0.0"),
        (
            "resolver: MEMORY",
            "",
            "config reload does not support moving to or from an account resolver",
        ),
        (
            "no_auth_user: a, authorization { users: [{user: a}] }",
            "authorization { users: [{user: a}] }",
            "config reload not supported for NoAuthUser: old=a, new=",
        ),
    ],
)
def test_refused(before: str, after: str, expected: str) -> None:
    plan = _diff(before, after)
    assert plan.actions == ()
    assert expected in [str(refusal) for refusal in plan.refusals]


def test_a_refusal_stops_everything() -> None:
    plan = _diff("", "debug: true, port: 1")
    assert plan.actions == ()
    assert len(plan.refusals) == 1


def test_random_ports_are_kept() -> None:
    running = options("port: 4300, websocket { port: 8080, no_tls: true }")
    file = options("port: -1, websocket { port: -1, no_tls: true }")
    assert diff(running, file) == ReloadPlan()


def test_a_user_for_nobody_may_go_with_its_user() -> None:
    plan = _diff("no_auth_user: a, authorization { users: [{user: a}] }", "authorization { users: [{user: b}] }")
    assert plan.actions == (ReloadAction("auth", ("authorization",)),)


def test_the_documentation_tells_the_truth() -> None:
    """A key is marked as reloadable exactly if the fields it fills are."""
    merged = {
        "listen": ("host", "port"),
        "trace_verbose": ("trace_verbose", "trace"),
        "trace_headers": ("trace_headers", "trace"),
        "http": ("http_host", "http_port"),
        "https": ("http_host", "https_port"),
        "proxies": ("trusted_proxies",),
        "store_dir": ("jetstream.store_dir",),
    }
    for key in SERVER.keys:
        fields = merged.get(key.names[0], (key.field,))
        assert key.reloadable == all(field in reload._HOT for field in fields), key.names
    known = set(Options.__match_args__)
    assert {name.partition(".")[0] for name in reload._HOT} <= known


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "jetstream: true"),
        ("jetstream { max_mem: 2, store_dir: x }", ""),
        ("jetstream { max_mem: 2, max_file: 5 }", "jetstream { max_mem: 3, max_file: 6 }"),
    ],
)
def test_jetstream_is_switched_and_may_grow(before: str, after: str) -> None:
    plan = _diff(before, after)
    assert plan.refusals == ()
    assert {action.kind for action in plan.actions} == {"jetstream"}
