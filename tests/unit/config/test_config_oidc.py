"""The `oidc` block: what it takes, and what it says about anything else."""

from __future__ import annotations

import pytest

from slipstream.config.account_options import PermissionsOptions, SubjectPermissionOptions
from slipstream.config.oidc_options import OIDC_ALGORITHMS, OidcOptions, OidcRuleOptions
from slipstream.config.validate import problems
from slipstream.units import SECOND_NS
from support.config_loading import errors, loaded, options


def test_a_short_one() -> None:
    found = options('authorization { oidc { issuer: "https://a", audience: nats } }').authorization.oidc
    assert found == (OidcOptions("https://a", ("nats",)),)
    assert found[0].algorithms == OIDC_ALGORITHMS


def test_a_long_one() -> None:
    text = """
    accounts { A {}, B {} }
    authorization { oidc [ {
      issuer: "https://a/x", aud: [one, two], jwks_uri: "http://b/keys", algorithms: [ES256, EdDSA]
      user: "{{claim(email)}}", account: "{{claim(t)}}", allowed_accounts: [A, B]
      permissions { publish: "a.{{claim(sub)}}.>", subscribe: ["{{subjects(x)}}", "b.* {{claim(queue)}}"] }
      rules: [ { match { groups: [x, y], "a.b": c }, account: A }, {} ]
      allowed_connection_types: [websocket], leeway: "1s", refresh: "2m"
    } ] }
    """
    (found,) = options(text).authorization.oidc
    subscribe = SubjectPermissionOptions(("{{subjects(x)}}", "b.* {{claim(queue)}}"))
    assert found == OidcOptions(
        issuer="https://a/x",
        audience=("one", "two"),
        jwks="http://b/keys",
        algorithms=("ES256", "EdDSA"),
        user="{{claim(email)}}",
        account="{{claim(t)}}",
        allowed_accounts=("A", "B"),
        permissions=PermissionsOptions(SubjectPermissionOptions(("a.{{claim(sub)}}.>",)), subscribe),
        rules=(OidcRuleOptions((("groups", ("x", "y")), ("a.b", ("c",))), "A"), OidcRuleOptions()),
        allowed_connection_types=("WEBSOCKET",),
        leeway_ns=SECOND_NS,
        refresh_ns=120 * SECOND_NS,
    )


OPERATOR = "OCSFHMU4UIQCLQ3CCVFEWPBO3DHFBI3YGWSSCWT4LOZVF4R2SPSEENI3"
GOOD = 'issuer: "https://a", audience: nats'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oidc: 7", "Expected oidc to be a map/struct, got 7"),
        ('oidc { audience: "x" }', "oidc requires an issuer"),
        ('oidc { issuer: "https://a" }', "oidc requires an audience"),
        ('oidc { issuer: "https://a", audience: "" }', "oidc requires an audience"),
        ('oidc { issuer: "a.b", audience: x }', 'oidc issuer has to be a http or https address, got "a.b"'),
        ('oidc { issuer: "ftp://a", audience: x }', 'oidc issuer has to be a http or https address, got "ftp://a"'),
        ('oidc { issuer: "https://u:p@a", audience: x }', "oidc issuer must not hold a user or password"),
        (f"oidc {{ {GOOD}, algorithms: [none] }}", 'oidc algorithm "none" is not one of RS256, '),
        (f"oidc {{ {GOOD}, algorithms: [HS256] }}", 'oidc algorithm "HS256" is not one of RS256, '),
        (f"oidc {{ {GOOD}, algorithms: [] }}", "oidc algorithms must name at least one"),
        (f'oidc {{ {GOOD}, user: "" }}', 'oidc user "" is not valid: it is empty'),
        (f'oidc {{ {GOOD}, user: "{{{{name()}}}}" }}', 'oidc user "{{name()}}" is not valid: only '),
        (f'oidc {{ {GOOD}, account: "{{{{subjects(x)}}}}" }}', "is not valid: a name is no list of subjects"),
        (f"oidc {{ {GOOD}, account: NOPE }}", 'oidc account "NOPE" not found in configured accounts'),
        (f"oidc {{ {GOOD}, allowed_accounts: [NOPE] }}", 'oidc account "NOPE" not found in configured accounts'),
        (f"oidc {{ {GOOD}, rules: [{{account: NOPE}}] }}", 'oidc account "NOPE" not found in configured accounts'),
        (f'oidc {{ {GOOD}, permissions {{ publish: "a.{{{{tag(x)}}}}" }} }}', "is not valid: only {{claim(name)}}"),
        (
            f'oidc {{ {GOOD}, permissions {{ publish: "a.{{{{subjects(x)}}}}" }} }}',
            "is not valid: only {{claim(name)}}",
        ),
        (f'oidc {{ {GOOD}, permissions {{ publish: "a {{{{claim(x)}}}}" }} }}', "is not a valid subject"),
        (f'oidc {{ {GOOD}, leeway: "10m" }}', "oidc leeway has to be at least 0s, at most 300s"),
        (f'oidc {{ {GOOD}, refresh: "1ms" }}', "oidc refresh has to be at least 1s"),
        (f"oidc {{ {GOOD}, rules: 7 }}", "Expected oidc rules to be an array, got int64"),
        (f"oidc {{ {GOOD}, rules: [{{match: 7}}] }}", "Expected match of an oidc rule to be a map, got int64"),
        (f"oidc {{ {GOOD}, rules: [{{user: x}}] }}", 'Unknown field "user" parsing oidc rule'),
        (f"oidc {{ {GOOD}, secret: x }}", 'Unknown field "secret" parsing oidc'),
        (f"oidc [ {{ {GOOD} }}, {{ {GOOD} }} ]", 'oidc names the issuer "https://a" twice'),
        (f"oidc [ {f'{{ {GOOD} }}, ' * 9} ]", "oidc takes at most 8 issuers"),
    ],
)
def test_errors(text: str, expected: str) -> None:
    assert expected in errors(f"authorization {{ {text} }}")[0]


def test_not_between_servers() -> None:
    text = f"cluster {{ port: -1, authorization {{ oidc {{ {GOOD} }} }} }}"
    assert "Cluster authorization does not support oidc" in errors(text)[0]


def test_not_with_operators() -> None:
    result = loaded(f"trusted_keys: [{OPERATOR}], authorization {{ oidc {{ {GOOD} }} }}").options
    assert any("oidc not compatible with Trusted Operator" in str(problem) for problem in problems(result))
