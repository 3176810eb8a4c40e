"""Accounts: what they hold, what they share, what they map."""

from __future__ import annotations

import pytest

from slipstream.config import (
    AccountJetStreamOptions,
    AccountLimitsOptions,
    AccountOptions,
    ExportOptions,
    ImportOptions,
    LatencyOptions,
    MappingDestination,
    MappingOptions,
    MsgTraceOptions,
)
from slipstream.config.load import Probes
from slipstream.units import SECOND_NS
from support.config_loading import errors, loaded, options


def _account(text: str) -> AccountOptions:
    (account,) = options(f"accounts {{ A {{ {text} }} }}").accounts
    return account


def test_names_alone() -> None:
    assert options("accounts: [A, B]").accounts == (AccountOptions("A"), AccountOptions("B"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", AccountJetStreamOptions()),
        ("ENABLED", AccountJetStreamOptions()),
        ("disabled", None),
        ("no", None),
        ("{max_mem: 1k, disk: 2k, streams: 3, max_bytes: true, cluster_traffic: owner}",
         AccountJetStreamOptions(max_memory=1000, max_store=2000, max_streams=3, max_bytes_required=True,
                                 cluster_traffic="owner")),
    ],
)  # fmt: skip
def test_jetstream(text: str, expected: AccountJetStreamOptions | None) -> None:
    assert _account(f"jetstream: {text}").jetstream == expected


def test_limits_and_trace() -> None:
    account = _account(
        "limits {max_conn: 1, max_subs: 2, max_pay: 3, max_leafs: 4}, trace_dest: {dest: a.b, sampling: 5%}"
    )
    assert account.limits == AccountLimitsOptions(1, 2, 3, 4)
    assert account.msg_trace == MsgTraceOptions("a.b", 5)
    (warning,) = loaded("accounts { A { msg_trace {sampling: 5} } }").warnings
    assert "sampling ignored since no destination was set" in str(warning)


def test_exports() -> None:
    account = _account(
        """exports: [
            {stream: "a.>"}
            {service: b, response: chunk, threshold: "3s", allow_trace: true}
            {service: c, latency: lat}
            {service: d, latency: {sampling: headers, subject: lat}}
            {stream: "t.*", account_token_position: 2}
        ]"""
    )
    assert account.exports == (
        ExportOptions("stream", "a.>"),
        ExportOptions("service", "b", response_type="chunked", response_threshold_ns=3 * SECOND_NS, allow_trace=True),
        ExportOptions("service", "c", latency=LatencyOptions("lat", 100)),
        ExportOptions("service", "d", latency=LatencyOptions("lat", 0)),
        ExportOptions("stream", "t.*", account_token_position=2),
    )


def test_imports() -> None:
    accounts = options(
        """accounts {
            A { exports: [
                {stream: "a.>"}, {service: "q.*", accounts: [B]}, {stream: "t.*", account_token_position: 2}
            ] }
            B { imports: [
                {stream: {account: A, subject: "a.b"}, prefix: p}
                {service: {account: A, subject: "q.1"}, to: ask, share: true}
                {stream: {account: A, subject: "t.B"}}
            ] }
        }"""
    ).accounts
    assert accounts[1].imports == (
        ImportOptions("stream", "A", "a.b", prefix="p"),
        ImportOptions("service", "A", "q.1", to="ask", share=True),
        ImportOptions("stream", "A", "t.B"),
    )


def test_mappings() -> None:
    got = options(
        'mappings { a: b, c: {dest: d, weight: 40}, "e.*": [{destination: f, weight: "30%", cluster: x}, '
        "{dest: g, weight: 100}] }"
    ).mappings
    assert got == (
        MappingOptions("a", (MappingDestination("b"),)),
        MappingOptions("c", (MappingDestination("d", 40),)),
        MappingOptions("e.*", (MappingDestination("f", 30, "x"), MappingDestination("g", 100))),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accounts: [A, $G]", None),
        ('accounts: [A, "$G"]', 't.conf:1:15: "$G" is a Reserved Account'),
        ("accounts: [A, A]", "t.conf:1:14: Duplicate Account Entry: A"),
        ("accounts { A: 5 }", "t.conf:1:11: Expected map entries for accounts"),
        ("accounts { A { foo: 5 } }", 't.conf:1:15: unknown field "foo"'),
        ("accounts { A { nkey: x } }", 't.conf:1:15: Not a valid public nkey for an account: "x"'),
        ("accounts { A { jetstream: 5 } }", "t.conf:1:15: Expected map, bool or string to define JetStream, got int64"),
        ("accounts { A { limits { x: 5 } } }", 't.conf:1:24: Unknown field "x" parsing account limits'),
        ("accounts { A { exports: 5 } }", "t.conf:1:15: Exports should be an array, got int64"),
        ("accounts { A { exports: [5 ] } }", "t.conf:1:25: Export Items should be a map with type entry, got int64"),
        ("accounts { A { exports: [{stream: a, service: b}] } }",
         't.conf:1:37: Detected service "b" but already saw a stream'),
        ("accounts { A { exports: [{stream: a, latency: b}] } }",
         "t.conf:1:37: Detected latency directive on non-service"),
        ("accounts { A { exports: [{service: a, response: b}] } }", 't.conf:1:38: Unknown response type: "b"'),
        ("accounts { A { exports: [{service: a, threshold: b}] } }",
         't.conf:1:38: Expected response threshold to be a parseable time duration, got "b"'),
        ("accounts { A { exports: [{service: a, latency: {sampling: 0, subject: b}}] } }",
         "t.conf:1:48: bad sampling percentage, should be 1-100"),
        ("accounts { A { exports: [{service: a, latency: {sampling: 5}}] } }",
         "t.conf:1:38: Latency subject required, but missing"),
        ("accounts { A { exports: [{stream: a, accounts: [B]}] } }",
         't.conf:1:0: "B" account not defined for stream export'),
        ('accounts { A { exports: [{stream: "a.b", account_token_position: 2}] } }',
         't.conf:1:0: Error adding stream export "a.b": invalid subject'),
        ("accounts { A { imports: [{stream: {account: B}}] } }", "t.conf:1:26: Expect an account name and a subject"),
        ("accounts { A { imports: [{stream: {account: B, subject: x}}] } }",
         't.conf:1:0: "B" account not defined for stream import'),
        ("accounts { A { exports: [{stream: a}] }, B { imports: [{service: {account: A, subject: a}}] } }",
         't.conf:1:0: Error adding service import "a": service import not authorized'),
        ("accounts { A { exports: [{stream: a, accounts: [A]}] }, "
         "B { imports: [{stream: {account: A, subject: a}}] } }",
         't.conf:1:0: Error adding stream import "a": stream import not authorized'),
        ('accounts { A { exports: [{stream: ">"}] }, '
         'B { imports: [{stream: {account: A, subject: a}, prefix: "*"}] } }',
         't.conf:1:0: Error adding stream import "a": stream import prefix can not contain wildcard tokens'),
        ("accounts { A { msg_trace: 5 } }",
         't.conf:1:15: Expected account message trace "msg_trace" to be a string or a map/struct, got int64'),
        ('mappings { "a..b": c }', 't.conf:1:0: Subject "a..b" is not a valid subject'),
        ("mappings { a: {dest: b} }", 't.conf:1:11: Missing weight for mapping destination "b"'),
        ("mappings { a: {dest: b, weight: 101} }", "t.conf:1:24: Invalid weight 101 for mapping destination"),
        ("mappings { a: {dest: b, weight: x} }", 't.conf:1:24: Invalid weight "x" for mapping destination'),
        ("mappings { a: {dst: b, weight: 1} }", 't.conf:1:15: Unknown field "dst" for mapping destination'),
        ("mappings { a: [{dest: b, weight: 60}, {dest: c, weight: 60}] }",
         't.conf:1:11: Error adding mapping for "a" : total weight needs to be <= 100'),
        ("mappings { a: [{dest: b, weight: 10}, {dest: b, weight: 10}] }",
         't.conf:1:11: Error adding mapping for "a" : duplicate entry for "b"'),
    ],
)  # fmt: skip
def test_errors(text: str, expected: str | None) -> None:
    if expected is None:  # `$G` without quotes is a variable, which is found when the file is parsed
        from slipstream.config.parser import parse_text
        from slipstream.errors import ConfigError

        with pytest.raises(ConfigError, match="variable reference for 'G' on line 1 can not be found"):
            parse_text(text)
        return
    assert errors(text)[0] == expected


@pytest.mark.parametrize("kind", ["service", "stream"])
def test_import_cycles(kind: str) -> None:
    def account(name: str, other: str) -> str:
        wanted = f"{{account: {other}, subject: x}}"
        return f"{name} {{ exports: [{{{kind}: x}}], imports: [{{{kind}: {wanted}}}] }}"

    text = f"accounts {{ {account('A', 'B')}\n{account('B', 'A')} }}"
    assert errors(text) == [f't.conf:1:0: Error adding {kind} import "x": import forms a cycle']


def test_chain_of_imports_is_no_cycle() -> None:
    chain = (
        "accounts { "
        + "\n".join(
            f"A{number} {{ exports: [{{service: x}}], imports: [{{service: {{account: A{number + 1}, subject: x}}}}] }}"
            for number in range(50)
        )
        + "\nA50 { exports: [{service: x}] } }"
    )
    assert len(options(chain).accounts) == 51


def test_rules_of_transforms_are_asked_for() -> None:
    asked = []

    def check(source: str, destination: str) -> str | None:
        asked.append((source, destination))
        return "no" if destination == "bad" else None

    probes = Probes(check_mapping=check)
    assert errors("mappings { a: good, b: bad }", probes) == ['t.conf:1:20: Error adding mapping for "b" to "bad" : no']
    wanted = '{stream: {account: A, subject: "a.*"}, to: "b.*"}'
    loaded(f'accounts {{ A {{ exports: [{{stream: "a.*"}}] }}, B {{ imports: [{wanted}] }} }}', probes)
    assert asked == [("a", "good"), ("b", "bad"), ("a.*", "b.$1")]
