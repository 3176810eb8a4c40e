"""USER.INFO: any client may ask who it is, in which account, and what it may do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from slipstream.config.account_options import PermissionsOptions, SubjectPermissionOptions
from slipstream.monitoring.client_facts import user_of
from slipstream.monitoring.facts import Facts
from slipstream.protocol.connection import ClientConnection
from slipstream.units import SECOND_NS

__all__ = ["UserInfo", "user_info"]


class SubjectRights(msgspec.Struct, omit_defaults=True):
    """Subjects that are allowed and denied; no list of allowed ones means all."""

    allow: Sequence[str] = ()
    deny: Sequence[str] = ()


class ResponseRights(msgspec.Struct):
    """How often and how long a request may be answered."""

    max: int
    ttl: int


class UserRights(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What a user may do."""

    publish: SubjectRights
    subscribe: SubjectRights
    responses: ResponseRights | None = None


class UserInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One user. `expires` is how long its credentials are still good, in nanoseconds."""

    user: str
    account: str
    account_name: str = ""
    user_name: str = ""
    permissions: UserRights | None = None
    expires: int = 0


def user_info(facts: Facts, connection: ClientConnection) -> UserInfo:
    """Who a client is."""
    account = facts.account_name_of(connection)
    permissions = connection.permissions
    token = connection.identity.token if connection.identity is not None else None
    ending = connection.identity.ending if connection.identity is not None else None
    left_ns = ending.until_ns - facts.now_ns() if ending is not None and ending.until_ns else 0
    return UserInfo(
        user=user_of(connection),
        account=account,
        account_name=facts.name_tag_of(account),
        user_name="" if token is None else token.claims.name,
        permissions=None if permissions is None else _rights(permissions.options),
        expires=left_ns // SECOND_NS * SECOND_NS,
    )


def _rights(options: PermissionsOptions) -> UserRights:
    responses = options.allow_responses
    return UserRights(
        publish=_subjects(options.publish),
        subscribe=_subjects(options.subscribe),
        responses=None if responses is None else ResponseRights(responses.max_msgs, responses.expires_ns),
    )


def _subjects(options: SubjectPermissionOptions | None) -> SubjectRights:
    return SubjectRights() if options is None else SubjectRights(options.allow or (), options.deny)
