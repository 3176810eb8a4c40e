"""Users, permissions and the authorization block."""

from __future__ import annotations

import pytest

from slipstream.config import PermissionsOptions, ResponsePermissionOptions, SubjectPermissionOptions, UserOptions
from slipstream.units import MINUTE_NS, SECOND_NS
from support.config_loading import errors, loaded, options

NKEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def _permissions(text: str) -> PermissionsOptions | None:
    (user,) = options(f"authorization {{ users: [{{user: a, permissions: {text}}}] }}").authorization.users
    return user.permissions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{ }", PermissionsOptions()),
        ("{ publish: a }", PermissionsOptions(publish=SubjectPermissionOptions(("a",)))),
        ("{ pub: [a, b] }", PermissionsOptions(publish=SubjectPermissionOptions(("a", "b")))),
        ("{ publish: {} }", PermissionsOptions()),
        ("{ publish: {allow: []} }", PermissionsOptions(publish=SubjectPermissionOptions())),
        ("{ publish: {deny: a} }", PermissionsOptions(publish=SubjectPermissionOptions(None, ("a",)))),
        ('{ sub: {allow: "a q", deny: ["b.>"]} }', PermissionsOptions(
            subscribe=SubjectPermissionOptions(("a q",), ("b.>",)))),
        ("{ allow_responses: false }", PermissionsOptions()),
        ("{ allow_responses: true }", PermissionsOptions(
            publish=SubjectPermissionOptions(()), allow_responses=ResponsePermissionOptions(1, 2 * MINUTE_NS))),
        ("{ allow_responses: {max: 5, expires: 1m}, publish: {deny: x} }", PermissionsOptions(
            publish=SubjectPermissionOptions((), ("x",)), allow_responses=ResponsePermissionOptions(5, MINUTE_NS))),
        ("{ allow_responses: {max: 0, ttl: 0s}, publish: y }", PermissionsOptions(
            publish=SubjectPermissionOptions(("y",)), allow_responses=ResponsePermissionOptions(1, 2 * MINUTE_NS))),
    ],
)  # fmt: skip
def test_permissions(text: str, expected: PermissionsOptions) -> None:
    assert _permissions(text.replace("1m", '"1m"').replace("0s", '"0s"')) == expected


def test_default_permissions_are_for_users_without_their_own() -> None:
    got = options(
        "authorization { users: [{user: a}, {user: b, permissions: {publish: own}}]\n permissions {publish: d} }"
    ).authorization
    default = PermissionsOptions(publish=SubjectPermissionOptions(("d",)))
    own = PermissionsOptions(publish=SubjectPermissionOptions(("own",)))
    assert [user.permissions for user in got.users] == [default, own]
    assert got.default_permissions == default


def test_users() -> None:
    got = options(f"authorization {{ users: [{{username: a, pass: b}}, {{nkey: {NKEY}, clients: [standard, Mqtt]}}] }}")
    plain = UserOptions(user="a", password="b")
    keyed = UserOptions(nkey=NKEY, allowed_connection_types=("STANDARD", "MQTT"))
    assert list(got.users()) == [("$G", plain), ("$G", keyed)]
    assert [user.name for _, user in got.users()] == ["a", NKEY]


def test_single_user_and_token() -> None:
    assert options("authorization { user: a, password: b, timeout: 1 }").authorization.timeout_ns == SECOND_NS
    assert options('authorization { token: t, timeout: "250ms" }').authorization.timeout_ns == SECOND_NS // 4
    assert options("authorization { }").authorization.defined
    assert not options("port: 1").authorization.defined


def test_long_timeout_is_doubted() -> None:
    (warning,) = loaded("authorization { timeout: 90 }").warnings
    assert "timeout of 90 (90.000000 seconds) is high" in str(warning)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user: a, token: b", "t.conf:1:0: Cannot have a user/pass and token"),
        ("user: a, users: []", "t.conf:1:0: Can not have a single user/pass and a users array"),
        ("token: a, users: []", "t.conf:1:0: Can not have a token and a users array"),
        ("users: 5", "t.conf:1:16: Expected users field to be an array, got 5"),
        ("users: [5 ]", "t.conf:1:24: Expected user entry to be a map/struct, got 5"),
        ("users: [{password: a}]", "t.conf:1:25: User entry requires a user"),
        ("users: [{}]", "t.conf:1:26: User entry requires a user"),
        ("users: [{nkey: UA}]", "t.conf:1:25: Not a valid public nkey for a user"),
        (f"users: [{{nkey: {NKEY}, user: a}}]", "t.conf:1:89: Nkey users do not take usernames or passwords"),
        (f"users: [{{nkey: {NKEY[:-1]}5}}]", "t.conf:1:25: Not a valid public nkey for a user"),
        ("users: [{user: a}, {user: a}]", 't.conf:1:0: Duplicate user "a" detected'),
        (f"users: [{{nkey: {NKEY}}}, {{nkey: {NKEY}}}]", f't.conf:1:0: Duplicate nkey "{NKEY}" detected'),
        ("users: [{user: a, foo: b}]", 't.conf:1:34: unknown field "foo"'),
        ("users: [{user: a, clients: [x]}]", 't.conf:1:34: invalid connection types ["X"]'),
        ("users: [{user: a, permissions: 5}]", "t.conf:1:34: Expected permissions to be a map/struct, got 5"),
        ("permissions { foo: 5 }", 't.conf:1:30: Unknown field "foo" parsing permissions'),
        ("permissions { publish: {foo: 5} }", 't.conf:1:40: Unknown field name "foo" parsing subject permissions,'
         " only 'allow' or 'deny' are permitted"),
        ('permissions { publish: {allow: "a b"} }', 't.conf:1:40: subject "a b" is not a valid subject'),
        ('permissions { subscribe: {allow: "a b c"} }', 't.conf:1:42: subject "a b c" is not a valid subject'),
        ('permissions { subscribe: {allow: "a. b"} }', 't.conf:1:42: subject "a." is not a valid subject'),
        ('permissions { subscribe: {allow: "a b."} }', 't.conf:1:42: queue "b." is not a valid queue'),
        ("permissions { publish: {deny: [5 ]} }", "t.conf:1:47: Subject in permissions array cannot be cast to string"),
        ("permissions { publish: 5 }",
         "t.conf:1:30: Expected subject permissions to be a subject, or array of subjects, got int64"),
        ("permissions { allow_responses: 5 }",
         "t.conf:1:30: error parsing response permissions, expected a boolean or a map"),
        ("permissions { allow_responses: {expires: 5} }",
         "t.conf:1:48: error parsing expires, not a duration string"),
        ("timeout: true", "t.conf:1:16: error parsing authorization config, 'timeout' wrong type"),
        ("auth_callout { issuer: A }",
         't.conf:1:31: Expected callout user to be a valid public account nkey, got "A"'),
    ],
)  # fmt: skip
def test_errors(text: str, expected: str) -> None:
    assert errors(f"authorization {{ {text} }}")[0] == expected


def test_a_user_of_the_command_line_and_accounts_exclude_each_other() -> None:
    text = "accounts { A { users: [{user: a}] } }"
    assert errors(text, authorization__user="x") == ["t.conf:1:15: Can not have a single user/pass and accounts"]
    assert errors(text, authorization__token="x") == ["t.conf:1:15: Can not have a token and accounts"]
