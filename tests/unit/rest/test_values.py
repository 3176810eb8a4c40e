"""Credentials, headers and origins: HTTP's words in those of NATS."""

from __future__ import annotations

import base64

import pytest

from slipstream.monitoring.query import UrlQuery
from slipstream.protocol.ws_origin import OriginPolicy
from slipstream.rest.call import ApiCall, CallHeaders
from slipstream.rest.credentials import credentials
from slipstream.rest.message_headers import from_http, header_block, to_http
from slipstream.rest.pages import allowed_origin
from slipstream.rest.steps import HttpProblem


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("header", "operator_mode", "expected"),
    [
        ("", False, {}),
        (basic("u:p:q"), False, {"user": "u", "pass": "p:q"}),
        (basic("u:"), False, {"user": "u", "pass": ""}),
        ("bearer abc", False, {"auth_token": "abc"}),
        ("Bearer abc", True, {"jwt": "abc"}),
    ],
)
def test_credentials(header: str, operator_mode: bool, expected: dict[str, str]) -> None:
    assert credentials(header, operator_mode=operator_mode) == expected


@pytest.mark.parametrize("header", ["Basic", "Basic !", basic("nocolon"), "Digest x", "Bearer", "Basic //79"])
def test_credentials_of_no_use(header: str) -> None:
    with pytest.raises(HttpProblem) as raised:
        credentials(header, operator_mode=False)
    assert raised.value.status == 401


def test_headers_get_the_spelling_of_nats() -> None:
    sent = [
        ("nats-ttl", "5s"),
        ("nats-expected-last-msg-id", "x"),
        ("x-nats-my-color", "red"),
        ("traceparent", "t"),
        ("cookie", "c"),
    ]
    assert from_http(sent) == [
        ("Nats-TTL", "5s"),
        ("Nats-Expected-Last-Msg-Id", "x"),
        ("My-Color", "red"),
        ("traceparent", "t"),
    ]


def test_there_is_a_limit_of_headers() -> None:
    with pytest.raises(HttpProblem) as raised:
        from_http([(f"x-nats-{number}", "v") for number in range(65)])
    assert raised.value.status == 431


def test_a_message_sets_no_headers_of_http() -> None:
    block = header_block([("Set-Cookie", "a"), ("Nats-Sequence", "7"), ("Bad Name", "x"), ("Odd", "é")])
    assert to_http(block) == (("X-Nats-Set-Cookie", "a"), ("Nats-Sequence", "7"))


def call(**headers: str) -> ApiCall:
    lines = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return ApiCall("GET", (), UrlQuery(""), CallHeaders(lines))


def test_pages_need_to_be_allowed() -> None:
    allowed = OriginPolicy.from_options(False, ["https://app.example"])
    nobody = OriginPolicy()
    assert allowed_origin(call(), nobody) == ""
    assert allowed_origin(call(sec_fetch_site="none"), nobody) == ""
    assert allowed_origin(call(origin="https://app.example"), allowed) == "https://app.example"
    for asked, policy in (
        (call(origin="https://app.example"), nobody),
        (call(origin="https://evil.example"), allowed),
        (call(origin="null"), allowed),
        (call(sec_fetch_site="same-origin"), allowed),  # a name that was rebound to this machine
        (call(sec_fetch_site="cross-site"), nobody),
    ):
        with pytest.raises(HttpProblem) as raised:
            allowed_origin(asked, policy)
        assert raised.value.status == 403
