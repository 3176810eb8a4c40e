"""Rights, limits and revocations in tokens, as the rest of the server means them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from slipstream.auth.jwt.claims import ALL_USERS, NO_LIMIT
from slipstream.config.account_options import (
    PermissionsOptions,
    ResponsePermissionOptions,
    SubjectPermissionOptions,
)

if TYPE_CHECKING:
    from slipstream.auth.jwt.claims import DefaultPermissions, Permission, RightsClaim

__all__ = ["clamped", "is_revoked", "permissions_of"]

_INT32_MAX: Final = 2**31 - 1


def permissions_of(rights: RightsClaim | DefaultPermissions) -> PermissionsOptions | None:
    """What a token allows; None when it says nothing about that."""
    publish, subscribe = _subjects(rights.pub, rights.pub.allow), _subjects(rights.sub, rights.sub.allow or None)
    responses = None if rights.resp is None else ResponsePermissionOptions(rights.resp.max, rights.resp.ttl)
    if publish is None and subscribe is None and responses is None:
        return None
    return PermissionsOptions(publish, subscribe, responses)


def _subjects(permission: Permission, allow: list[str] | None) -> SubjectPermissionOptions | None:
    # Two empty lists say nothing in a token, other than in a configuration. Beside a deny, an empty list of what may
    # be published allows nothing; one of what may be subscribed to says nothing. nats-server tells them apart so.
    if not permission.allow and not permission.deny:
        return None
    return SubjectPermissionOptions(allow=None if allow is None else tuple(allow), deny=tuple(permission.deny or ()))


def clamped(limit: int) -> int:
    """A limit as the server counts it: -1 is none, anything else below 0 is 0."""
    return NO_LIMIT if limit == NO_LIMIT else min(max(limit, 0), _INT32_MAX)


def is_revoked(revocations: Mapping[str, int] | None, subject: str, issued_s: int) -> bool:
    """Whether a token that was issued at some time is revoked, by itself or with all others."""
    if not revocations:
        return False
    return any(revocations.get(key, issued_s - 1) >= issued_s for key in (subject, ALL_USERS))
