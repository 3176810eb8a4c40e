"""What monitoring asks of JetStream, and the shapes in which it is shown.

JetStream plugs in an object with these methods (`Monitoring.facts.jetstream = ...`); until then every endpoint says
that JetStream is off. The configurations, states and consumer infos pass through as they are: whatever the JSON encoder
takes, in the order and with the names of the JetStream API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, Protocol

import msgspec

from slipstream.monitoring.worker import Steps
from slipstream.units import MILLISECOND_NS

__all__ = [
    "AccountView",
    "ApiStats",
    "AtRestProgress",
    "HealthProblem",
    "JetStreamConfig",
    "JetStreamFacts",
    "JetStreamLimits",
    "JetStreamStats",
    "JetStreamVarz",
    "StreamView",
    "SyncStats",
    "after_received",
    "varz_of",
]

_COMMIT_LOOK_NS: Final = MILLISECOND_NS  # between two looks at a commit that is waited for: less than most take

# An object of the JetStream API, ready for the encoder: a mapping in wire order.
ApiObject = Mapping[str, object]


class ApiStats(msgspec.Struct, omit_defaults=True):
    """Use of the JetStream API."""

    level: int
    total: int
    errors: int
    inflight: int = 0


class JetStreamStats(msgspec.Struct, kw_only=True):
    """Use of JetStream by the server or by one account."""

    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0
    accounts: int = 0
    ha_assets: int = 0
    api: ApiStats = msgspec.field(default_factory=lambda: ApiStats(0, 0, 0))


class AtRestProgress(msgspec.Struct):
    """Encryption at rest that is turned on or off: how far it is. An addition to nats-server."""

    state: Literal["encrypting", "decrypting", "done"]
    files: int
    left: int


class SyncStats(msgspec.Struct):
    """Syncs of the disk since the start."""

    count: int
    total_seconds: float
    last_seconds: float


class JetStreamConfig(msgspec.Struct, omit_defaults=True):
    """The configuration JetStream runs with."""

    max_memory: int
    max_storage: int
    store_dir: str = ""
    sync_interval: int = 0
    sync_always: bool = False
    domain: str = ""
    compress_ok: bool = False
    unique_tag: str = ""
    strict: bool = False


class JetStreamLimits(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The ceilings for every account."""

    max_request_batch: int = 0
    default_max_consumers: int = 0
    max_ack_pending: int = 0
    max_ha_assets: int = 0
    max_duplicate_window: int = 0
    max_batch_inflight_per_stream: int = 0
    max_batch_inflight_total: int = 0
    max_batch_size: int = 0
    max_batch_timeout: int = 0


class JetStreamVarz(msgspec.Struct, omit_defaults=True):
    """JetStream inside /varz and STATSZ."""

    config: JetStreamConfig | None = None
    stats: JetStreamStats | None = None
    limits: JetStreamLimits | None = None
    meta: ApiObject | None = None


class StreamView(Protocol):
    """One stream."""

    @property
    def name(self) -> str: ...
    @property
    def created(self) -> str:
        """When it was created, RFC 3339."""
        ...

    @property
    def is_led(self) -> bool:
        """Whether this server leads it; otherwise it keeps a copy."""
        ...

    def config(self) -> ApiObject: ...
    def state(self) -> ApiObject:
        """With `messages`, `bytes` and `consumer_count`."""
        ...

    def cluster(self) -> ApiObject | None: ...
    def raft_group(self) -> str:
        """The name of its group; none: the server is alone."""
        ...

    def mirror(self) -> ApiObject | None: ...
    def sources(self) -> list[ApiObject]: ...
    def readers(self) -> Mapping[str, int]:
        """Who holds messages for bulk reads (Spark queries, writers of tables), and how many they have not read."""
        ...

    def consumers(self, *, direct: bool) -> list[ApiObject]:
        """Consumer infos: those of clients, or (direct) those of mirrors and sources."""
        ...


class AccountView(Protocol):
    """JetStream of one account."""

    @property
    def name(self) -> str: ...
    def stats(self) -> JetStreamStats: ...
    def streams(self) -> Iterable[StreamView]: ...


class HealthProblem(Exception):
    """Something is not well, or what was asked about is not there."""

    def __init__(
        self,
        kind: Literal["JETSTREAM", "ACCOUNT", "STREAM", "CONSUMER"],
        text: str,
        *,
        account: str = "",
        stream: str = "",
        consumer: str = "",
        missing: bool = False,
    ) -> None:
        """Remember what and where.

        Args:
            kind: what is ill.
            text: the words for people.
            account: the account concerned, if any.
            stream: the stream concerned, if any.
            consumer: the consumer concerned, if any.
            missing: it does not exist (404) rather than being ill (503).
        """
        super().__init__(text)
        self.kind, self.text, self.missing = kind, text, missing
        self.account, self.stream, self.consumer = account, stream, consumer


class JetStreamFacts(Protocol):
    """JetStream, for reading."""

    @property
    def enabled(self) -> bool:
        """Whether it runs; False while it could not start or was shut down by an error."""
        ...

    def received(self) -> Callable[[], bool]:
        """Asks whether everything that has been received up to now is committed, and counted in what is shown."""
        ...

    def config(self) -> JetStreamConfig: ...
    def limits(self) -> JetStreamLimits: ...
    def stats(self) -> JetStreamStats: ...
    def syncs(self) -> SyncStats:
        """How long the disk takes."""
        ...

    def accounts(self) -> Iterable[AccountView]:
        """The accounts that use JetStream."""
        ...

    def at_rest(self) -> AtRestProgress | None:
        """How far encryption at rest is turned on or off; None if nothing of the kind was begun since the start."""
        ...

    @property
    def leads_meta(self) -> bool:
        """Whether this server leads the meta group, or is alone."""
        ...

    def meta_cluster(self) -> ApiObject | None:
        """The meta group of a cluster; None alone, or before there is one."""
        ...

    def raft_groups(self, account: str, group: str) -> Mapping[str, Mapping[str, object]] | None:
        """Groups by account and name, of one account (empty: the system's) or one alone; None: there can be none."""
        ...

    def queues(self) -> Mapping[str, int]:
        """How much waits, by nats-server's name of the queue."""
        ...

    def problems(self, account: str, stream: str, consumer: str) -> Iterable[HealthProblem]:
        """What is wrong with everything, or with one account, stream or consumer when named."""
        ...


def after_received(jetstream: JetStreamFacts | None) -> Steps[None]:
    """Let everything that was received before be committed and counted."""
    if jetstream is None or not jetstream.enabled:
        return
    received = jetstream.received()
    while not received() and jetstream.enabled:
        yield _COMMIT_LOOK_NS


def varz_of(jetstream: JetStreamFacts | None) -> JetStreamVarz:
    """JetStream as /varz shows it; empty when it is off."""
    if jetstream is None or not jetstream.enabled:
        return JetStreamVarz()
    return JetStreamVarz(jetstream.config(), jetstream.stats(), jetstream.limits(), jetstream.meta_cluster())
