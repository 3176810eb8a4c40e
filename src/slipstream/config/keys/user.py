"""The keys about users: permissions, `users` entries, the `authorization` block, `auth_callout`.

Checks each block by itself. That a user name is unique over all blocks is checked in `load`, which sees them all.
"""

from __future__ import annotations

from typing import Final

from slipstream.config.account_options import (
    AuthCalloutOptions,
    AuthorizationOptions,
    PermissionsOptions,
    ResponsePermissionOptions,
    SubjectPermissionOptions,
    UserOptions,
)
from slipstream.config.checker import Checker, Key, KeyTable, Reader, go_type, quote, read_map, refusal, wrong_type
from slipstream.config.durations import parse_duration
from slipstream.config.parser import Value
from slipstream.config.readers import BOOLEAN, STRING, integer, seconds, text, text_list
from slipstream.config.record import replace
from slipstream.config.subject_rules import ACCOUNT_KEY, CURVE_KEY, USER_KEY, is_public_key, is_valid_subject
from slipstream.limits import ALLOW_RESPONSE_EXPIRES_NS, ALLOW_RESPONSE_MAX_MSGS, AUTH_TIMEOUT_WARN_NS
from slipstream.units import SECOND_NS

__all__ = [
    "AUTHORIZATION",
    "AUTH_CALLOUT",
    "PERMISSIONS",
    "PUBLISH",
    "RESPONSES",
    "SUBSCRIBE",
    "USER",
    "auth_timeout",
    "authorization",
    "connection_types",
    "permissions",
    "subject_list",
    "users",
    "with_default_permissions",
]

_CONNECTION_TYPES: Final = frozenset(
    {"STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"}
)


# --- permissions -----------------------------------------------------------------------------------------------------


def permissions(checker: Checker, value: Value, _key: str) -> PermissionsOptions:
    """A map with `publish`, `subscribe` and `allow_responses`."""
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected permissions to be a map/struct, got {value.plain()}")
    fields = read_map(checker, value, PERMISSIONS)
    if fields.get("allow_responses") is not None:
        publish = fields.get("publish") or SubjectPermissionOptions()
        assert isinstance(publish, SubjectPermissionOptions)
        # The right to answer replaces the right to publish everywhere.
        fields["publish"] = replace(publish, allow=publish.allow or ())
    return PermissionsOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


def subject_list(*, queue_allowed: bool) -> Reader:
    """A subject or an array of subjects; a subscription may name a queue group after a blank."""

    def read(_checker: Checker, value: Value, _key: str) -> tuple[str, ...]:
        if isinstance(value.data, str):
            subjects = [value.data]
        elif isinstance(value.data, list):
            subjects = []
            for entry in value.data:
                if not isinstance(entry.data, str):
                    raise refusal(entry, "Subject in permissions array cannot be cast to string")
                subjects.append(entry.data)
        else:
            wanted = "Expected subject permissions to be a subject, or array of subjects"
            raise refusal(value, f"{wanted}, got {go_type(value)}")
        for subject in subjects:
            problem = _subject_problem(subject, queue_allowed=queue_allowed)
            if problem:
                raise refusal(value, problem)
        return tuple(subjects)

    return read


def _subject_problem(subject: str, *, queue_allowed: bool) -> str | None:
    if is_valid_subject(subject):
        return None
    words = subject.split()
    if not queue_allowed or len(words) != 2:
        return f"subject {quote(subject)} is not a valid subject"
    if not is_valid_subject(words[0]):
        return f"subject {quote(words[0])} is not a valid subject"
    if not is_valid_subject(words[1]):
        return f"queue {quote(words[1])} is not a valid queue"
    return None


def _subject_table(*, queue_allowed: bool) -> KeyTable:
    subjects = subject_list(queue_allowed=queue_allowed)
    queue = " `subject queue` allows a subscription in that queue group." if queue_allowed else ""
    return KeyTable(
        Key(
            "allow",
            ("list of subjects", subjects),
            f"Subjects that are allowed; everything if missing.{queue}",
            reloadable=True,
        ),
        Key("deny", ("list of subjects", subjects), "Subjects that are refused, whatever is allowed.", reloadable=True),
        unknown="Unknown field name {} parsing subject permissions, only 'allow' or 'deny' are permitted",
    )


def _subject_permission(table: KeyTable) -> Reader:
    """A map with `allow` and `deny`, or the subjects allowed."""
    allowed = table.keys[0].read

    def read(checker: Checker, value: Value, key: str) -> SubjectPermissionOptions | None:
        if not isinstance(value.data, dict):
            subjects = allowed(checker, value, key)
            return SubjectPermissionOptions(allow=subjects or None)  # type: ignore[arg-type]  # a tuple of subjects
        if not value.data:
            return None
        fields = read_map(checker, value, table)
        fields["allow"] = fields.get("allow") or None  # an empty list restricts nothing
        return SubjectPermissionOptions(**fields)  # type: ignore[arg-type]  # the table names its fields

    return read


PUBLISH: Final = _subject_table(queue_allowed=False)
SUBSCRIBE: Final = _subject_table(queue_allowed=True)


def _max_responses(checker: Checker, value: Value, key: str) -> int:
    return integer(checker, value, key) or ALLOW_RESPONSE_MAX_MSGS


def _response_expiry(_checker: Checker, value: Value, _key: str) -> int:
    if not isinstance(value.data, str):
        raise refusal(value, "error parsing expires, not a duration string")
    try:
        return parse_duration(value.data) or ALLOW_RESPONSE_EXPIRES_NS
    except ValueError as error:
        raise refusal(value, f"error parsing expires: {error}") from None


RESPONSES: Final = KeyTable(
    Key(
        "max max_msgs max_messages max_responses",
        ("integer", _max_responses),
        "Replies a request may get; negative means any number.",
        field="max_msgs",
        reloadable=True,
    ),
    Key(
        "expires expiration ttl",
        ("duration", _response_expiry),
        "How long the right to reply lasts; negative means for ever.",
        field="expires_ns",
        reloadable=True,
    ),
    unknown="Unknown field {} parsing permissions",
)


def _allow_responses(checker: Checker, value: Value, _key: str) -> ResponsePermissionOptions | None:
    if isinstance(value.data, bool):
        return ResponsePermissionOptions() if value.data else None
    if not isinstance(value.data, dict):
        raise refusal(value, "error parsing response permissions, expected a boolean or a map")
    return ResponsePermissionOptions(**read_map(checker, value, RESPONSES))  # type: ignore[arg-type]


PERMISSIONS: Final = KeyTable(
    Key(
        "publish pub import",
        ("subjects, or map of allow and deny", _subject_permission(PUBLISH)),
        "Where the user may publish.",
        reloadable=True,
    ),
    Key(
        "subscribe sub export",
        ("subjects, or map of allow and deny", _subject_permission(SUBSCRIBE)),
        "What the user may subscribe to.",
        reloadable=True,
    ),
    Key(
        "allow_responses publish_allow_responses",
        ("boolean or map", _allow_responses),
        "The user may publish to the reply subject of a request it received.",
        reloadable=True,
    ),
    unknown="Unknown field {} parsing permissions",
)


# --- users -----------------------------------------------------------------------------------------------------------


def connection_types(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    """Kinds of connections, in capitals."""
    words = text_list("allowed connection types")(checker, value, key)
    assert isinstance(words, tuple)
    types = tuple(dict.fromkeys(word.upper() for word in words))
    unknown = [word for word in types if word not in _CONNECTION_TYPES]
    if unknown:
        raise refusal(value, f"invalid connection types [{' '.join(map(quote, unknown))}]")
    return types


USER: Final = KeyTable(
    Key("user username", STRING, "Name of the user.", reloadable=True),
    Key("password pass", STRING, "Password, in clear or as bcrypt hash.", reloadable=True),
    Key("nkey", STRING, "Public user key (`U...`), instead of name and password.", reloadable=True),
    Key(
        "permissions permission authorization",
        ("map", permissions),
        "What the user may do; missing means everything.",
        reloadable=True,
    ),
    Key(
        "allowed_connection_types connection_types clients",
        ("list of types", connection_types),
        "How the user may connect: `STANDARD`, `WEBSOCKET`, `LEAFNODE`, `LEAFNODE_WS`, `MQTT`, `MQTT_WS`, "
        "`IN_PROCESS`; missing means every way.",
        reloadable=True,
    ),
    Key("proxy_required", BOOLEAN, "Only connections that a trusted proxy vouches for.", reloadable=True),
)


def users(checker: Checker, value: Value, _key: str) -> tuple[UserOptions, ...]:
    """An array of user entries."""
    if not isinstance(value.data, list):
        raise refusal(value, f"Expected users field to be an array, got {value.plain()}")
    found = []
    for entry in value.data:
        if not isinstance(entry.data, dict):
            checker.error(refusal(entry, f"Expected user entry to be a map/struct, got {entry.plain()}"))
            continue
        before = len(checker.errors)
        user = UserOptions(**read_map(checker, entry, USER))  # type: ignore[arg-type]  # the table names its fields
        if len(checker.errors) > before:
            continue
        problem = _user_problem(user)
        if problem:
            raise refusal(list(entry.data.values())[-1] if entry.data else entry, problem)
        found.append(user)
    return tuple(found)


def _user_problem(user: UserOptions) -> str | None:
    if not user.nkey:
        return None if user.user else "User entry requires a user"
    if not is_public_key(user.nkey, USER_KEY):
        return "Not a valid public nkey for a user"
    if user.user or user.password:
        return "Nkey users do not take usernames or passwords"
    return None


def with_default_permissions(
    found: tuple[UserOptions, ...], default: PermissionsOptions | None
) -> tuple[UserOptions, ...]:
    """The users, those without permissions having the default ones."""
    if default is None:
        return found
    return tuple(user if user.permissions is not None else replace(user, permissions=default) for user in found)


# --- authorization ---------------------------------------------------------------------------------------------------


def auth_timeout(context: str) -> Reader:
    """`timeout` of an authorization block; a very long one is probably a mistake."""
    plain = seconds(context)

    def read(checker: Checker, value: Value, key: str) -> int:
        timeout_ns = plain(checker, value, key)
        assert isinstance(timeout_ns, int)
        if timeout_ns > AUTH_TIMEOUT_WARN_NS:
            checker.warn(
                value,
                key,
                f"timeout of {value.data} ({timeout_ns / SECOND_NS:f} seconds) is high, consider keeping it under 60 "
                "seconds. possibly caused by unquoted duration; use '1m' instead of 1m, for example",
            )
        return timeout_ns

    return read


def _text_array(message: str) -> Reader:
    def read(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
        if not isinstance(value.data, list):
            raise refusal(value, f"{message}, got {go_type(value)}")
        return tuple(text(checker, entry, key) for entry in value.data)

    return read


def _issuer(checker: Checker, value: Value, key: str) -> str:
    issuer = text(checker, value, key)
    if not is_public_key(issuer, ACCOUNT_KEY):
        raise refusal(value, f"Expected callout user to be a valid public account nkey, got {quote(issuer)}")
    return issuer


def _xkey(checker: Checker, value: Value, key: str) -> str:
    xkey = text(checker, value, key)
    if not is_public_key(xkey, CURVE_KEY):
        raise refusal(value, f"Expected callout xkey to be a valid public xkey, got {quote(xkey)}")
    return xkey


AUTH_CALLOUT: Final = KeyTable(
    Key("issuer", ("account key", _issuer), "Public key that signs the answers of the service."),
    Key("account acc", STRING, "Account of the service; `$G` if missing."),
    Key(
        "auth_users users",
        ("list of strings", _text_array("Expected auth_users field to be an array")),
        "Users that connect without the service, among them the service itself.",
    ),
    Key("xkey key", ("curve key", _xkey), "Public key that requests are encrypted for."),
    Key(
        "allowed_accounts",
        ("list of strings", _text_array("Expected allowed accounts field to be an array")),
        "Accounts the service decides for; all if missing.",
    ),
    unknown="Unknown field {} parsing authorization callout",
)


def _auth_callout(checker: Checker, value: Value, _key: str) -> AuthCalloutOptions:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected authorization callout to be a map/struct, got {value.plain()}")
    fields = {"issuer": "", **read_map(checker, value, AUTH_CALLOUT)}
    callout = AuthCalloutOptions(**fields)  # type: ignore[arg-type]  # the table names its fields
    if not callout.issuer:
        raise refusal(value, "Authorization callouts require an issuer to be specified")
    if not callout.auth_users:
        raise refusal(value, "Authorization callouts require authorized users to be specified")
    return callout


def _oidc(checker: Checker, value: Value, key: str) -> object:
    from slipstream.config.keys.oidc import oidc  # few files have it, and it reads permissions with what is here

    return oidc(checker, value, key)


AUTHORIZATION: Final = KeyTable(
    Key("user username", STRING, "The one user of the server.", reloadable=True),
    Key("password pass", STRING, "Its password, in clear or as bcrypt hash.", reloadable=True),
    Key("token", STRING, "A token instead of a user, in clear or as bcrypt hash.", reloadable=True),
    Key(
        "timeout",
        ("duration", auth_timeout("authorization")),
        "Time a client has to authenticate.",
        field="timeout_ns",
        reloadable=True,
    ),
    Key("users", ("list of users", users), "Several users of the global account.", reloadable=True),
    Key(
        "default_permissions default_permission permissions",
        ("map", permissions),
        "Permissions of users that have none of their own.",
        reloadable=True,
    ),
    Key("auth_callout auth_hook", ("map", _auth_callout), "Let a service decide who a client is."),
    Key(
        "oidc",
        ("map or list of maps", _oidc),
        "Let tokens of OpenID issuers say who a client is.",
        reloadable=True,
    ),
    Key("proxy_required", BOOLEAN, "Only connections that a trusted proxy vouches for.", reloadable=True),
)


def authorization(checker: Checker, value: Value, _key: str) -> AuthorizationOptions:
    """An `authorization` block. A missing timeout is left as 0 for `load` to fill in."""
    if not isinstance(value.data, dict):
        raise wrong_type(value, "map[string]interface {}")
    fields: dict[str, object] = {"timeout_ns": 0, "defined": True, **read_map(checker, value, AUTHORIZATION)}
    options = AuthorizationOptions(**fields)  # type: ignore[arg-type]  # the table names its fields
    return replace(options, users=with_default_permissions(options.users, options.default_permissions))
