"""What is wrong with the content of tokens; parts of the day and networks; templates of scoped signing keys."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from slipstream.auth.jwt.checks import account_findings, activation_findings, operator_findings, user_findings
from slipstream.auth.jwt.claims import AccountClaims, OperatorClaims, RightsClaim, UserClaims
from slipstream.auth.jwt.findings import blocks
from slipstream.auth.jwt.templates import EXPANSIONS_MAX, UserTemplateError, fill
from slipstream.auth.jwt.token import decode_account, decode_activation, decode_operator, decode_user
from slipstream.auth.jwt.windows import is_from, remaining_ns, seconds_of_day
from slipstream.units import MINUTE_NS, SECOND_NS
from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims
from support.normalise import Json

operator, account, other, user = Key(OPERATOR, "o"), Key(ACCOUNT, "a"), Key(ACCOUNT, "b"), Key(USER, "u")
NOW = 1_800_000_000


def zone(name: str) -> tzinfo | None:
    """The zones the tests know."""
    return {"": UTC, "Asia/Tokyo": ZoneInfo("Asia/Tokyo")}.get(name)


def of_account(**claims: Any) -> list[str]:
    """Findings about an account."""
    decoded = decode_account(token(operator, account, account_claims(**claims)))
    return [finding.text for finding in account_findings(decoded, NOW)]


def of_user(**claims: Any) -> list[str]:
    """Findings about a user."""
    decoded = decode_user(token(account, user, user_claims(**claims)))
    return [finding.text for finding in user_findings(decoded, NOW, zone)]


def test_times_block_only_where_time_counts() -> None:
    late = decode_user(token(account, user, user_claims(), exp=NOW - 1))
    early = decode_user(token(account, user, user_claims(), nbf=NOW + 1))
    for claims, text in ((late, "claim is expired"), (early, "claim is not yet valid")):
        found = user_findings(claims, NOW, zone)
        assert [finding.text for finding in found] == [text]
        assert blocks(found, with_time=True)
        assert not blocks(found, with_time=False)
    assert not user_findings(decode_user(token(account, user, user_claims(), exp=NOW, nbf=NOW)), NOW, zone)


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ({"pub": {"allow": ["a b"]}}, 'Permission Subject "a b" is not allowed to contain queue'),
        ({"sub": {"deny": ["a b c"]}}, 'Permission Subject "a b c" contains too many spaces'),
        ({"sub": {"allow": ["a..b"]}}, 'subject "a..b" cannot contain consecutive `.`'),
        ({"pub": {"allow": [""]}}, "subject cannot be empty"),
        ({"src": ["10.0.0.1"]}, 'invalid cidr "10.0.0.1" in user src limits'),
        ({"src": ["10.0.0.0/255.0.0.0"]}, 'invalid cidr "10.0.0.0/255.0.0.0" in user src limits'),
        ({"times": [{"end": "01:00:00"}]}, "time ranges start must contain a start"),
        ({"times": [{"start": "01:00:00", "end": "24:00:00"}]}, 'end in time range is invalid "24:00:00"'),
        ({"times_location": "Nowhere"}, "could not parse iana time zone by name: unknown time zone Nowhere"),
        ({"issuer_account": user.public}, "account_id is not an account public key"),
    ],
)
def test_users(claims: dict[str, Json], text: str) -> None:
    assert of_user(**claims) == [text]


def _import(**fields: Json) -> Json:
    return {"type": "stream", "subject": "a", "account": other.public} | fields


def _limits(**fields: Json) -> Json:
    return account_claims()["limits"] | fields


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ({"imports": [None]}, "null import is not allowed"),
        ({"imports": [_import(type="")]}, None),
        ({"imports": [_import(account="")]}, "account to import from is not specified"),
        (
            {"imports": [_import(subject="a.*", local_subject="b")]},
            "subject does not contain enough * or reference wildcards $[0-9]",
        ),
        (
            {"imports": [_import(subject="a.>", local_subject="b")]},
            "both, renaming subject and subject, need to end or not end in >",
        ),
        ({"imports": [_import(token="x.y.z")]}, 'import "a" contains an invalid activation token'),
        (
            {"imports": [_import(share=True)]},
            'sharing information (for latency tracking) is only valid for services: "a"',
        ),
        ({"exports": [{"type": "stream", "subject": "a."}]}, 'subject "a." cannot start or end with a `.`'),
        (
            {"exports": [{"type": "stream", "subject": "a", "account_token_position": 1}]},
            "Account Token Position can only be used with wildcard subjects: a",
        ),
        (
            {"exports": [{"type": "service", "subject": "a", "response_type": "x"}]},
            'invalid response type for service: "x"',
        ),
        (
            {"limits": _limits(imports=0), "imports": [_import()]},
            "the account contains more imports than allowed by the operator",
        ),
        (
            {"limits": _limits(exports=1, wildcards=False), "exports": [{"type": "stream", "subject": "a.*"}]},
            "the account contains wildcard exports that are not allowed by the operator",
        ),
        ({"limits": _limits(tiered_limits={"": {}})}, 'Tiered JetStream Limits can not contain a blank "" tier name'),
        (
            {"mappings": {"a": [{"subject": "b", "weight": 60}, {"subject": "c", "weight": 60}]}},
            'Mapping "a" exceeds 100% among all of it\'s weighted to mappings',
        ),
        ({"signing_keys": ["x"]}, '"x" is not a valid account signing key'),
        ({"signing_keys": [{"kind": "user_scope", "key": user.public}]}, f"{user.public} is not an account public key"),
        ({"authorization": {"auth_users": ["x"]}}, 'AuthUser "x" is not a valid user public key'),
        ({"trace": {"dest": "a.*"}}, 'the account Trace.Destination subject "a.*" is not a valid publish subject'),
        ({"info_url": "nowhere"}, "error parsing info url: no hostname or scheme"),
        ({"cluster_traffic": "x"}, 'unknown cluster traffic option: "x"'),
    ],
)
def test_accounts(claims: dict[str, Json], text: str | None) -> None:
    if text is None:
        assert of_account(**claims)
    else:
        assert text in of_account(**claims)


def test_good_ones() -> None:
    assert not of_account(imports=[_import(subject="a.*", local_subject="b.$1")])
    assert not of_user(pub={"allow": ["a.>"]}, sub={"allow": ["a q"]}, src=["10.0.0.0/8", "fe80::/10"])


def test_operator() -> None:
    claims = decode_operator(token(operator, operator, {"signing_keys": ["x"], "system_account": "y"}))
    assert isinstance(claims, OperatorClaims)
    assert [finding.text for finding in operator_findings(claims, NOW)] == [
        "x is not an operator public key",
        "y is not an account public key",
    ]


def test_activation_is_bound_to_account_and_subject() -> None:
    def activation(issuer: Key, to: Key, **part: Json) -> str:
        return token(issuer, to, {"type": "activation", "subject": "a.>", "kind": "stream"} | part)

    good = activation(other, account)
    assert not activation_findings(decode_activation(good), NOW)
    assert not of_account(imports=[_import(subject="a.b", token=good)])
    for bad, text in (
        (activation(account, account), 'activation token doesn\'t match account for import "a.b"'),
        (activation(other, other), 'activation token doesn\'t match account it is being included in, "a.b"'),
        (
            activation(other, account, kind="service"),
            "mismatch between token import type service and type of import stream",
        ),
        (activation(other, account, subject="c"), 'activation token import subject "c" doesn\'t match import "a.b"'),
    ):
        assert of_account(imports=[_import(subject="a.b", token=bad)]) == [text]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:00:00", 0),
        ("23:59:59", 86_399),
        ("1:02:03", 3_723),
        ("24:00:00", None),
        ("1:2:3", None),
        ("\u0661\u0661:00:00", None),
    ],
)
def test_seconds_of_day(text: str, seconds: int | None) -> None:
    assert seconds_of_day(text) == seconds


@pytest.mark.parametrize(
    ("start", "end", "at", "minutes"),
    [
        ("11:00:00", "22:00:00", "13:00", 9 * 60),
        ("11:00:00", "22:00:00", "10:59", None),
        ("11:00:00", "22:00:00", "22:00", None),
        ("22:00:00", "06:00:00", "05:00", 60),
        ("22:00:00", "06:00:00", "23:30", 6 * 60 + 30),
        ("22:00:00", "06:00:00", "12:00", None),
    ],
)
def test_windows(start: str, end: str, at: str, minutes: int | None) -> None:
    rights = msgspec.convert({"times": [{"start": start, "end": end}]}, RightsClaim)
    hour, minute = at.split(":")
    now_ns = int(datetime(2026, 5, 4, int(hour), int(minute), tzinfo=UTC).timestamp()) * SECOND_NS
    assert remaining_ns(rights, now_ns, zone) == (None if minutes is None else minutes * MINUTE_NS)
    there = msgspec.structs.replace(rights, times_location="Asia/Tokyo")
    assert remaining_ns(there, now_ns - 9 * 60 * MINUTE_NS, zone) == remaining_ns(rights, now_ns, zone)
    assert remaining_ns(msgspec.structs.replace(rights, times_location="Nowhere"), now_ns, zone) is None


def test_no_window_is_no_limit() -> None:
    assert remaining_ns(RightsClaim(), 0, zone) == 0


def test_networks() -> None:
    assert is_from(None, "1.2.3.4")
    assert is_from(["10.0.0.0/8", "1.2.3.0/24"], "1.2.3.4")
    assert is_from(["1.2.3.0/24"], "::ffff:1.2.3.4")
    assert not is_from(["10.0.0.0/8"], "1.2.3.4")
    assert not is_from(["10.0.0.0/8"], "")
    assert not is_from(["fe80::/10"], "1.2.3.4")


def _filled(template: dict[str, Json], tags: list[str] | None = None) -> RightsClaim:
    part = msgspec.convert({"issuer_account": account.public, "tags": tags}, type(UserClaims().nats))
    holder = AccountClaims(name="ACME", sub=account.public)
    holder.nats.tags = ["region:eu", "region:us"]
    return fill(msgspec.convert(template, RightsClaim), UserClaims(name="ann", sub=user.public, nats=part), holder)


def test_templates() -> None:
    rights = _filled(
        {
            "pub": {"allow": ["{{name()}}.{{ Subject() }}", "{{account-name()}}.{{account-subject()}}.x", "plain"]},
            "sub": {"allow": ["{{account-tag(region)}}.{{tag(team)}}.>"], "deny": ["no.{{tag(TEAM)}}"]},
        },
        ["team:a", "team:b", "x:y"],
    )
    assert rights.pub.allow == [f"ann.{user.public}", f"ACME.{account.public}.x", "plain"]
    assert rights.sub.allow == ["eu.a.>", "eu.b.>", "us.a.>", "us.b.>"]
    assert rights.sub.deny == ["no.a", "no.b"]


def test_a_template_of_which_nothing_is_left_allows_nothing() -> None:
    rights = _filled({"pub": {"allow": ["{{tag(none)}}"]}})
    assert (rights.pub.allow, rights.pub.deny) == ([], [">"])


@pytest.mark.parametrize(
    "template",
    [
        {"pub": {"deny": ["{{tag(none)}}"]}},
        {"pub": {"allow": ["{{odd()}}"]}},
        {"sub": {"deny": ["a..{{name()}}"]}},
        {"sub": {"allow": [".".join(["{{tag(t)}}"] * 13)]}},
    ],
)
def test_templates_that_cannot_be_filled(template: dict[str, Json]) -> None:
    assert EXPANSIONS_MAX < 2**13
    with pytest.raises(UserTemplateError):
        _filled(template, ["t:1", "t:2"])
