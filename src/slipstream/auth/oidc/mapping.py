"""What the claims of a verified token make of a client: its name, its account, its permissions.

`{{claim(path)}}` stands for the value of a claim, and an entry is repeated for each value of a list. A value has to be
one plain token of a subject: whoever may choose a claim, such as the own name, gets no wildcard and no further token by
it. `{{subjects(path)}}` stands for whole subjects, for issuers that keep permissions themselves.

What cannot be filled in is left out of an allow list, of which nothing may be left: that allows nothing. In a deny list
it refuses the login, since nobody can say what should have been denied.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from slipstream.auth.oidc.token import Claims, OpenIdRefusal
from slipstream.config.account_options import PermissionsOptions, SubjectPermissionOptions
from slipstream.config.oidc_options import CLAIM, SUBJECTS, OidcRuleOptions
from slipstream.config.record import Record
from slipstream.config.subject_rules import is_valid_subject

if TYPE_CHECKING:
    from slipstream.config.oidc_options import OidcOptions

__all__ = ["Mapped", "mapped", "values_of"]

_NAME_MAX: Final = 256  # characters of a user's name: it is shown wherever the client is
_VALUES_MAX: Final = 1_024  # of one claim
_EXPANSIONS_MAX: Final = 4_096  # subjects of one list, as for scoped signing keys
_PATH_DOTS_MAX: Final = 16  # nested claims
_NUMBER_MAX: Final = 2**63  # beyond, a number is no name


class Mapped(Record):
    """A client by its claims."""

    user: str
    account: str
    permissions: PermissionsOptions | None


def mapped(claims: Claims, issuer: OidcOptions) -> Mapped:
    """Who a client is.

    Raises:
        OpenIdRefusal: the claims do not say, or no rule is for them.
    """
    rule = _rule(claims, issuer)
    rights = rule.permissions or issuer.permissions
    return Mapped(
        user=_name(issuer.user, claims, "user"),
        account=_name(rule.account or issuer.account, claims, "account"),
        permissions=None if rights is None else _permissions(rights, claims),
    )


def _rule(claims: Claims, issuer: OidcOptions) -> OidcRuleOptions:
    if not issuer.rules:
        return OidcRuleOptions()
    for rule in issuer.rules:
        if all(set(values_of(claims, path)) & set(wanted) for path, wanted in rule.match):
            return rule
    raise OpenIdRefusal("no rule is for the claims of the token")


def values_of(claims: Claims, path: str) -> list[str]:
    """The values of a claim as texts; none if it is missing or holds something else."""
    found = _looked_up(claims, path)
    entries = found if isinstance(found, list) else [found]
    if len(entries) > _VALUES_MAX:
        raise OpenIdRefusal(f"the claim {path} has more than {_VALUES_MAX} values")
    return [_text(entry) for entry in entries if _is_plain(entry)]


def _is_plain(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and abs(value) < _NUMBER_MAX)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _looked_up(claims: object, path: str, depth: int = 0) -> object:
    """A claim by its whole name, which may hold dots, or by the names on the way to it."""
    if not isinstance(claims, dict):
        return None
    if path in claims:
        return claims[path]
    at = path.find(".")
    while at >= 0 and depth < _PATH_DOTS_MAX:
        inner = claims.get(path[:at])
        if isinstance(inner, dict):
            return _looked_up(inner, path[at + 1 :], depth + 1)
        at = path.find(".", at + 1)
    return None


def _name(template: str, claims: Claims, what: str) -> str:
    def value(path: str) -> str:
        values = values_of(claims, path)
        if len(values) != 1:
            raise OpenIdRefusal(f"the token does not name one {what}: claim {path}")
        return values[0]

    name = CLAIM.sub(lambda found: value(found[1]), template)
    if not name or len(name) > _NAME_MAX or not name.isprintable():
        raise OpenIdRefusal(f"the token names no usable {what}")
    return name


def _permissions(rights: PermissionsOptions, claims: Claims) -> PermissionsOptions:
    return PermissionsOptions(
        _subjects(rights.publish, claims, queues=False),
        _subjects(rights.subscribe, claims, queues=True),
        rights.allow_responses,
    )


def _subjects(
    permission: SubjectPermissionOptions | None, claims: Claims, *, queues: bool
) -> SubjectPermissionOptions | None:
    if permission is None:
        return None
    allow = permission.allow
    return SubjectPermissionOptions(
        None if allow is None else _filled(allow, claims, queues=queues, must_fit=False),
        _filled(permission.deny, claims, queues=queues, must_fit=True),
    )


def _filled(entries: tuple[str, ...], claims: Claims, *, queues: bool, must_fit: bool) -> tuple[str, ...]:
    filled: list[str] = []
    for entry in entries:
        for subject in _expanded(entry, claims, must_fit=must_fit):
            words = subject.split()
            if words and len(words) <= (2 if queues else 1) and all(map(is_valid_subject, words)):
                filled.append(" ".join(words))
            elif must_fit:
                raise OpenIdRefusal(f"the token gives no subject for {entry}")
            if len(filled) > _EXPANSIONS_MAX:
                raise OpenIdRefusal(f"the token gives more than {_EXPANSIONS_MAX} subjects")
    return tuple(dict.fromkeys(filled))


def _expanded(entry: str, claims: Claims, *, must_fit: bool) -> Iterator[str]:
    whole = SUBJECTS.fullmatch(entry)
    if whole is not None:
        values = values_of(claims, whole[1])
        if not values and must_fit:
            raise OpenIdRefusal(f"the token gives no subject for {entry}")
        yield from values
        return
    paths = list(dict.fromkeys(CLAIM.findall(entry)))
    choices = [[value for value in values_of(claims, path) if must_fit or _is_token(value)] for path in paths]
    if must_fit and not all(values and all(map(_is_token, values)) for values in choices):
        raise OpenIdRefusal(f"the token gives no subject for {entry}")
    if prod(map(len, choices)) > _EXPANSIONS_MAX:
        raise OpenIdRefusal(f"the token gives more than {_EXPANSIONS_MAX} subjects")
    for chosen in product(*choices):
        values_by_path = dict(zip(paths, chosen, strict=True))
        yield CLAIM.sub(lambda found, values=values_by_path: values[found[1]], entry)  # type: ignore[misc]


def _is_token(value: str) -> bool:
    """Whether a value is one literal token of a subject."""
    return value.isprintable() and not any(mark in value for mark in " .*>") and is_valid_subject(value)
