"""What the tokens of operator mode say, as types: the claims of version 2.

A field that is missing or null has Go's zero value, as for nats-server: a limit that a token does not name is 0 and
not "no limit" (that is -1). Lists keep the difference between missing (None) and empty, because a user under a scoped
signing key must not name any right at all, not even an empty list.

What it is not: a check. `token` proves who signed, `checks` says whether the content makes sense.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

__all__ = [
    "ALL_USERS",
    "NO_LIMIT",
    "AccountClaims",
    "AccountPart",
    "ActivationClaims",
    "ActivationPart",
    "AuthorizationAnswer",
    "AuthorizationAnswerPart",
    "Claims",
    "ExportClaim",
    "ExternalAuthorization",
    "GenericClaims",
    "ImportClaim",
    "JetStreamClaim",
    "Limits",
    "OperatorClaims",
    "OperatorPart",
    "Permission",
    "ResponsePermission",
    "RightsClaim",
    "Scope",
    "UserClaims",
    "UserPart",
]

NO_LIMIT: Final = -1
ALL_USERS: Final = "*"  # in a list of revocations: everybody

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Uint8 = Annotated[int, msgspec.Meta(ge=0, le=255)]
Uint = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Sharing = Literal["stream", "service", ""]  # empty: not given


class Permission(msgspec.Struct):
    """Subjects that may be used, and such that may not."""

    allow: list[str] | None = None
    deny: list[str] | None = None


class ResponsePermission(msgspec.Struct):
    """The right to answer."""

    max: Int64 = 0
    ttl: Int64 = 0  # nanoseconds


class TimeRange(msgspec.Struct):
    """A part of the day, `15:04:05` each."""

    start: str = ""
    end: str = ""


class RightsClaim(msgspec.Struct, kw_only=True):
    """Rights and limits of a user; also what a scoped signing key gives to all of its users."""

    pub: Permission = msgspec.field(default_factory=Permission)
    sub: Permission = msgspec.field(default_factory=Permission)
    resp: ResponsePermission | None = None
    src: list[str] | None = None  # networks
    times: list[TimeRange] | None = None
    times_location: str = ""
    subs: Int64 = 0
    data: Int64 = 0  # nobody counts it, nats-server neither
    payload: Int64 = 0
    bearer_token: bool = False
    proxy_required: bool = False
    allowed_connection_types: list[str] | None = None

    def names_nothing(self) -> bool:
        """Whether no right and no limit is named, as a user of a scoped signing key has to."""
        return all(getattr(self, name) == getattr(_NOTHING, name) for name in RightsClaim.__struct_fields__)


_NOTHING: Final = RightsClaim()


class UserPart(RightsClaim, kw_only=True):
    """`nats` of a user."""

    issuer_account: str = ""  # set when a signing key of the account signed
    tags: list[str] | None = None
    type: str = ""
    version: Int64 = 0


class Scope(msgspec.Struct, kw_only=True):
    """A signing key whose users have the rights of a template."""

    kind: str
    key: str = ""
    role: str = ""
    description: str = ""
    template: RightsClaim = msgspec.field(
        default_factory=lambda: RightsClaim(subs=NO_LIMIT, data=NO_LIMIT, payload=NO_LIMIT)
    )


class Latency(msgspec.Struct):
    """Where the latency of a service is reported."""

    sampling: Int64 = 0  # percent; 0: as the headers of a request say
    results: str = ""


class ExportClaim(msgspec.Struct, kw_only=True):
    """A stream or service on offer."""

    name: str = ""
    subject: str = ""
    type: Sharing = ""
    token_req: bool = False
    revocations: dict[str, Int64] | None = None
    response_type: str = ""
    response_threshold: Int64 = 0  # nanoseconds
    service_latency: Latency | None = None
    account_token_position: Uint = 0
    advertise: bool = False
    allow_trace: bool = False
    description: str = ""
    info_url: str = ""


class ImportClaim(msgspec.Struct, kw_only=True):
    """What an account takes from another."""

    name: str = ""
    subject: str = ""
    account: str = ""
    token: str = ""
    to: str = ""
    local_subject: str = ""
    type: Sharing = ""
    share: bool = False
    allow_trace: bool = False


class JetStreamClaim(msgspec.Struct, kw_only=True):
    """What an account may keep; without memory and disk it has no JetStream."""

    mem_storage: Int64 = 0
    disk_storage: Int64 = 0
    streams: Int64 = 0
    consumer: Int64 = 0
    max_ack_pending: Int64 = 0
    mem_max_stream_bytes: Int64 = 0
    disk_max_stream_bytes: Int64 = 0
    max_bytes_required: bool = False


class Limits(JetStreamClaim, kw_only=True):
    """Everything an operator limits."""

    subs: Int64 = 0
    data: Int64 = 0
    payload: Int64 = 0
    imports: Int64 = 0
    exports: Int64 = 0
    wildcards: bool = False
    disallow_bearer: bool = False
    conn: Int64 = 0
    leaf: Int64 = 0
    tiered_limits: dict[str, JetStreamClaim] | None = None

    def jetstream(self) -> dict[str, JetStreamClaim]:
        """The limits of JetStream by tier, "" without tiers; empty when the account has none."""
        tiers: dict[str, JetStreamClaim] = self.tiered_limits or {"": self}
        return tiers if any(tier.mem_storage or tier.disk_storage for tier in tiers.values()) else {}


class Destination(msgspec.Struct):
    """One destination of a mapping."""

    subject: str = ""
    weight: Uint8 = 0  # percent; 0: 100
    cluster: str = ""


class ExternalAuthorization(msgspec.Struct, kw_only=True):
    """Who decides about the users of an account instead of their tokens."""

    auth_users: list[str] | None = None
    allowed_accounts: list[str] | None = None
    xkey: str = ""


class Trace(msgspec.Struct):
    """Where traces of sampled requests go."""

    dest: str = ""
    sampling: Int64 = 0


class DefaultPermissions(msgspec.Struct, kw_only=True):
    """Of users whose token names no rights."""

    pub: Permission = msgspec.field(default_factory=Permission)
    sub: Permission = msgspec.field(default_factory=Permission)
    resp: ResponsePermission | None = None


class AccountPart(msgspec.Struct, kw_only=True):
    """`nats` of an account."""

    imports: list[ImportClaim | None] | None = None
    exports: list[ExportClaim | None] | None = None
    limits: Limits = msgspec.field(default_factory=Limits)
    signing_keys: dict[str, Scope | None] = msgspec.field(default_factory=dict)  # written as a list
    revocations: dict[str, Int64] | None = None
    default_permissions: DefaultPermissions = msgspec.field(default_factory=DefaultPermissions)
    mappings: dict[str, list[Destination]] | None = None
    authorization: ExternalAuthorization = msgspec.field(default_factory=ExternalAuthorization)
    trace: Trace | None = None
    cluster_traffic: str = ""
    description: str = ""
    info_url: str = ""
    tags: list[str] | None = None
    type: str = ""
    version: Int64 = 0


class OperatorPart(msgspec.Struct, kw_only=True):
    """`nats` of an operator."""

    signing_keys: list[str] | None = None
    account_server_url: str = ""
    operator_service_urls: list[str] | None = None
    system_account: str = ""
    assert_server_version: str = ""
    strict_signing_key_usage: bool = False
    tags: list[str] | None = None
    type: str = ""
    version: Int64 = 0


class ActivationPart(msgspec.Struct, kw_only=True):
    """`nats` of an activation: the right to import something that is not for everybody."""

    subject: str = ""
    kind: Sharing = ""
    issuer_account: str = ""
    tags: list[str] | None = None
    type: str = ""
    version: Int64 = 0


class Claims(msgspec.Struct, kw_only=True):
    """What every token says. Times are seconds since 1970; 0: not given."""

    aud: str = ""
    exp: Int64 = 0
    jti: str = ""
    iat: Int64 = 0
    iss: str = ""
    name: str = ""
    nbf: Int64 = 0
    sub: str = ""


class UserClaims(Claims, kw_only=True):
    """The token of a user."""

    nats: UserPart = msgspec.field(default_factory=UserPart)

    @property
    def account(self) -> str:
        """The account that the user belongs to."""
        return self.nats.issuer_account or self.iss


class AccountClaims(Claims, kw_only=True):
    """The token of an account."""

    nats: AccountPart = msgspec.field(default_factory=AccountPart)

    @property
    def imports(self) -> list[ImportClaim]:
        """What it takes from others."""
        return [entry for entry in self.nats.imports or () if entry is not None]


class OperatorClaims(Claims, kw_only=True):
    """The token of an operator."""

    nats: OperatorPart = msgspec.field(default_factory=OperatorPart)


class ActivationClaims(Claims, kw_only=True):
    """The token with which an account lets another one import."""

    nats: ActivationPart = msgspec.field(default_factory=ActivationPart)


class AuthorizationAnswerPart(msgspec.Struct, kw_only=True):
    """`nats` of an auth callout's answer."""

    jwt: str = ""  # the token of the user who may come in
    error: str = ""  # why nobody may
    issuer_account: str = ""
    tags: list[str] | None = None
    type: str = ""
    version: Int64 = 0


class AuthorizationAnswer(Claims, kw_only=True):
    """What an auth callout answers."""

    nats: AuthorizationAnswerPart = msgspec.field(default_factory=AuthorizationAnswerPart)


class GenericClaims(Claims, kw_only=True):
    """A token of any other kind."""

    nats: dict[str, object] = msgspec.field(default_factory=dict)
