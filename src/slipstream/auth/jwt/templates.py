"""Rights of users under a scoped signing key: a template of the account, filled in for each user.

`{{name()}}`, `{{subject()}}`, `{{account-name()}}`, `{{account-subject()}}` stand for one value, `{{tag(x)}}` and
`{{account-tag(x)}}` for every tag `x:value` there is: an entry is repeated for each. What gives no valid subject is
left out of an allow list, and is an error in a deny list; an allow list of which nothing is left allows nothing.
"""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

import msgspec

from slipstream.auth.jwt.claims import Permission
from slipstream.kernels.subjects.subject import is_valid_subscription

if TYPE_CHECKING:
    from slipstream.auth.jwt.claims import AccountClaims, RightsClaim, UserClaims

__all__ = ["EXPANSIONS_MAX", "UserTemplateError", "fill"]

# Subjects that a list may grow to, as in nats-server: tags multiply.
EXPANSIONS_MAX: Final = 4096

_FIELD: Final = re.compile(r"\{\{[^}]+\}\}")


class UserTemplateError(Exception):
    """The template gives no rights that could be used."""


def fill(template: RightsClaim, user: UserClaims, account: AccountClaims) -> RightsClaim:
    """The rights of one user.

    Raises:
        UserTemplateError: a deny entry or an unknown field cannot be filled in, or there would be too many subjects.
    """
    publish = _permission(template.pub, user, account, words=1)
    subscribe = _permission(template.sub, user, account, words=2)
    return msgspec.structs.replace(template, pub=publish, sub=subscribe)


def _permission(permission: Permission, user: UserClaims, account: AccountClaims, *, words: int) -> Permission:
    allow = _entries(permission.allow, user, account, must_fit=False)
    deny = _entries(permission.deny, user, account, must_fit=True)
    # Nobody checked the template of a scope: what is no subject allows nothing, and denied it refuses the login later.
    allow = allow and [entry for entry in allow if _is_right(entry, words)]
    if permission.allow and not allow:
        deny = [*(deny or ()), ">"]
    return Permission(allow, deny)


def _is_right(entry: str, words: int) -> bool:
    """Whether this is a subject; with two words, also one with a queue group."""
    found = entry.encode("utf-8", "surrogatepass").split(b" ")
    return len(found) <= words and all(map(is_valid_subscription, found))


def _entries(
    entries: list[str] | None, user: UserClaims, account: AccountClaims, *, must_fit: bool
) -> list[str] | None:
    if not any(_FIELD.search(entry) for entry in entries or ()):
        return entries
    filled: list[str] = []
    for entry in entries or ():
        fields = _FIELD.findall(entry)
        values = [_values(field, entry, user, account, must_fit=must_fit) for field in fields]
        if len(filled) + prod(map(len, values)) > EXPANSIONS_MAX:
            raise UserTemplateError(f"template expansion exceeds limit: {EXPANSIONS_MAX}")
        for chosen in product(*values):
            subject = entry
            for field, value in zip(fields, chosen, strict=True):
                subject = subject.replace(field, value)
            if is_valid_subscription(subject.encode("utf-8", "surrogatepass")):
                filled.append(subject)
            elif must_fit:
                raise UserTemplateError("generated invalid subject")
    return filled


def _values(field: str, entry: str, user: UserClaims, account: AccountClaims, *, must_fit: bool) -> list[str]:
    operation = field[2:-2].strip()
    match operation.lower():
        case "name()":
            return [user.name]
        case "subject()":
            return [user.sub]
        case "account-name()":
            return [account.name]
        case "account-subject()":
            return [user.nats.issuer_account]
    for prefix, tags in (("tag(", user.nats.tags), ("account-tag(", account.nats.tags)):
        if operation.lower().startswith(prefix) and operation.endswith(")"):
            # Spelled in capitals, nats-server takes the function itself for a part of the tag's name: there is none.
            name = operation[len(prefix) : -1] if operation.startswith(prefix) else operation[:-1]
            start = f"{name.lower()}:"
            values = [tag.removeprefix(start) for tag in tags or () if tag.startswith(start)]
            if not values and must_fit:
                raise UserTemplateError(f'generated invalid subject "{entry}": "{name}" is not defined')
            return values or [" "]  # no subject can have it
    raise UserTemplateError(f'template operation in "{entry}": "{operation}" is not defined')
