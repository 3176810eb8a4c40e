"""Options about who may connect and what they may do: users, permissions, accounts, sharing, mappings.

Values only. Checking is done by the loader; these classes are what the rest of the server reads.

Invariants: durations are nanoseconds; `None` in an allow list means "everything", an empty tuple means "nothing";
default permissions have already been copied to the users without their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from slipstream.config.record import EMPTY, Record
from slipstream.limits import (
    ALLOW_RESPONSE_EXPIRES_NS,
    ALLOW_RESPONSE_MAX_MSGS,
    AUTH_TIMEOUT_NS,
    SERVICE_LATENCY_SAMPLING,
)

if TYPE_CHECKING:
    from slipstream.config.declared_options import DeclaredOptions
    from slipstream.config.oidc_options import OidcOptions

__all__ = [
    "AccountJetStreamOptions",
    "AccountLimitsOptions",
    "AccountOptions",
    "AuthCalloutOptions",
    "AuthorizationOptions",
    "ExportOptions",
    "ImportOptions",
    "LatencyOptions",
    "MappingDestination",
    "MappingOptions",
    "MsgTraceOptions",
    "PermissionsOptions",
    "ResponsePermissionOptions",
    "SubjectPermissionOptions",
    "UserOptions",
]


class SubjectPermissionOptions(Record):
    """`publish` or `subscribe` permission: a subscribe entry may be `subject queue`."""

    allow: tuple[str, ...] | None = None  # None: every subject; (): none
    deny: tuple[str, ...] = ()  # wins over allow


class ResponsePermissionOptions(Record):
    """`allow_responses`: the temporary right to publish to the reply subject of a received request."""

    max_msgs: int = ALLOW_RESPONSE_MAX_MSGS  # replies a request; negative: no limit
    expires_ns: int = ALLOW_RESPONSE_EXPIRES_NS  # negative: no limit


class PermissionsOptions(Record):
    """What a user may publish and subscribe to. `None` means no restriction of that kind."""

    publish: SubjectPermissionOptions | None = None
    subscribe: SubjectPermissionOptions | None = None
    allow_responses: ResponsePermissionOptions | None = None


class UserOptions(Record, secret=("password",)):
    """One entry of `users`: either `user` with `password`, or `nkey`."""

    user: str = ""
    password: str = ""  # clear text or bcrypt
    nkey: str = ""  # public user key, U...
    permissions: PermissionsOptions | None = None
    allowed_connection_types: tuple[str, ...] | None = None  # upper case; None: every type
    proxy_required: bool = False

    @property
    def name(self) -> str:
        """The nkey of an nkey user, else the user name; unique over all accounts."""
        return self.nkey or self.user


class LatencyOptions(Record):
    """`latency` of a service export."""

    subject: str
    sampling: int = SERVICE_LATENCY_SAMPLING  # percent; 0: decided by the request's trace headers


class ExportOptions(Record):
    """One entry of `exports`."""

    kind: Literal["stream", "service"]
    subject: str
    accounts: tuple[str, ...] = ()  # who may import; empty: everybody
    response_type: Literal["single", "stream", "chunked"] = "single"
    response_threshold_ns: int = 0  # 0: the default, SERVICE_RESPONSE_THRESHOLD_NS
    latency: LatencyOptions | None = None
    account_token_position: int = 0  # 1-based token of `subject` that must be the importer's name; 0: off
    allow_trace: bool = False


class ImportOptions(Record):
    """One entry of `imports`."""

    kind: Literal["stream", "service"]
    account: str  # the exporting account
    subject: str  # subject in the exporting account
    to: str = ""  # local subject; empty: the same
    prefix: str = ""  # streams only: put before the subject
    share: bool = False  # services only: tell the exporter who asked
    allow_trace: bool = False  # streams only


class MappingDestination(Record):
    """One destination of a subject mapping."""

    destination: str
    weight: int = 100  # percent
    cluster: str = ""  # only on servers of this cluster; empty: everywhere


class MappingOptions(Record):
    """One subject mapping. Weights of a cluster add up to at most 100."""

    source: str
    destinations: tuple[MappingDestination, ...]


class AccountLimitsOptions(Record):
    """`limits` of an account; -1 means no limit of its own."""

    max_connections: int = -1
    max_subscriptions: int = -1
    max_payload: int = -1
    max_leafnodes: int = -1


class AccountJetStreamOptions(Record):
    """`jetstream` of an account; -1 means no limit."""

    max_memory: int = -1  # bytes
    max_store: int = -1  # bytes
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    mem_max_stream_bytes: int = -1
    disk_max_stream_bytes: int = -1
    max_bytes_required: bool = False  # streams must set max_bytes
    cluster_traffic: Literal["system", "owner"] = "system"
    tiers: Mapping[str, AccountJetStreamOptions] = EMPTY  # by number of replicas, `R1`; only tokens have them
    declared: DeclaredOptions | None = None


class MsgTraceOptions(Record):
    """`msg_trace` of an account: where traces of sampled W3C requests go."""

    dest: str
    sampling: int = 100  # percent


class AccountOptions(Record):
    """One entry of `accounts`."""

    name: str
    nkey: str = ""  # public account key, A...
    users: tuple[UserOptions, ...] = ()
    default_permissions: PermissionsOptions | None = None
    exports: tuple[ExportOptions, ...] = ()
    imports: tuple[ImportOptions, ...] = ()
    mappings: tuple[MappingOptions, ...] = ()
    jetstream: AccountJetStreamOptions | None = None  # None: JetStream is off for the account
    limits: AccountLimitsOptions = AccountLimitsOptions()
    msg_trace: MsgTraceOptions | None = None


class AuthCalloutOptions(Record):
    """`auth_callout`: an outside service decides who a client is."""

    issuer: str = ""  # public account key that signs the answers
    account: str = "$G"
    auth_users: tuple[str, ...] = ()
    xkey: str = ""
    allowed_accounts: tuple[str, ...] = ()


class AuthorizationOptions(
    Record,
    secret=(
        "password",
        "token",
    ),
):
    """`authorization` at the top of the file, or in a listener block (which uses a part of it)."""

    user: str = ""
    password: str = ""
    token: str = ""
    timeout_ns: int = AUTH_TIMEOUT_NS
    users: tuple[UserOptions, ...] = ()
    default_permissions: PermissionsOptions | None = None
    auth_callout: AuthCalloutOptions | None = None
    oidc: tuple[OidcOptions, ...] = ()
    proxy_required: bool = False
    defined: bool = False  # the block was in the file, even if empty
