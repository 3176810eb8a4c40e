"""/jsz: JetStream in numbers, by account, stream and consumer as asked for."""

from __future__ import annotations

import msgspec

from slipstream.config.account_options import AccountJetStreamOptions
from slipstream.errors import SlipstreamError
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.jetstream_facts import (
    AccountView,
    ApiObject,
    ApiStats,
    AtRestProgress,
    JetStreamConfig,
    JetStreamLimits,
    JetStreamStats,
    StreamView,
    after_received,
)
from slipstream.monitoring.limits import MONITOR_PAGE
from slipstream.monitoring.query import BadRequest, UrlQuery
from slipstream.monitoring.worker import Steps

__all__ = ["AccountJetStream", "Jsz", "JszOptions", "NotLeader", "jsz", "jsz_account", "jsz_options"]

_STEP_STREAMS = 32  # streams looked at before messages get their turn
_UNSIGNED = 2**64


class NotLeader(SlipstreamError):
    """Only the leader was asked, and this server is none: 400 over HTTP, silence over `$SYS`."""


class JszOptions(msgspec.Struct, kw_only=True):
    """What to show; the names are those of a `$SYS` request."""

    account: str = ""
    accounts: bool = False
    streams: bool = False
    consumer: bool = False
    direct_consumer: bool = False
    config: bool = False
    leader_only: bool = False
    offset: int = 0
    limit: int = 0
    raft: bool = False
    stream_leader_only: bool = False


class ConsumerGroup(msgspec.Struct):
    """The Raft group that a consumer is in: its stream's."""

    name: str
    raft_group: str


class StreamDetail(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One stream."""

    name: str
    created: str
    cluster: ApiObject | None = None
    config: ApiObject | None = None
    state: ApiObject
    consumer_detail: list[ApiObject] = []
    direct_consumer_detail: list[ApiObject] = []
    mirror: ApiObject | None = None
    sources: list[ApiObject] = []
    stream_raft_group: str = ""
    consumer_raft_groups: list[ConsumerGroup] = []


class AccountJetStream(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One account. An account without limits shows them as the largest unsigned number."""

    name: str
    id: str
    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    accounts: int
    ha_assets: int
    api: object
    stream_detail: list[StreamDetail] = []


class Jsz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The whole."""

    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    accounts: int
    ha_assets: int
    api: object
    server_id: str
    now: str
    disabled: bool = False
    config: JetStreamConfig
    limits: JetStreamLimits | None = None
    streams: int
    streams_leader: int = 0
    consumers: int
    consumers_leader: int = 0
    messages: int
    bytes: int
    meta_cluster: ApiObject | None = None
    account_details: list[AccountJetStream] = []
    total: int
    at_rest: AtRestProgress | None = None


def jsz_options(query: UrlQuery) -> JszOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    return JszOptions(
        accounts=query.flag("accounts"),
        streams=query.flag("streams"),
        consumer=query.flag("consumers"),
        direct_consumer=query.flag("direct-consumers"),
        config=query.flag("config"),
        offset=query.integer("offset"),
        limit=query.integer("limit"),
        leader_only=query.flag("leader-only"),
        raft=query.flag("raft"),
        stream_leader_only=query.flag("stream-leader-only"),
        account=query.text("acc"),
    )


def jsz(facts: Facts, options: JszOptions) -> Steps[Jsz]:
    """JetStream as it is now, gathered in steps.

    Raises:
        NotLeader: only the leader was asked.
    """
    jetstream = facts.jetstream
    if jetstream is None or not jetstream.enabled:
        if options.leader_only:
            raise NotLeader("filtered response: not leader")
        return _whole(facts, JetStreamStats(), JetStreamConfig(0, 0), disabled=True)
    if options.leader_only and not jetstream.leads_meta:
        raise NotLeader("filtered response: not leader")
    yield from after_received(jetstream)
    accounts = list(jetstream.accounts())
    whole = _whole(facts, jetstream.stats(), jetstream.config(), limits=jetstream.limits())
    whole.total = len(accounts)
    whole.at_rest = jetstream.at_rest()
    whole.meta_cluster = jetstream.meta_cluster()
    for account in accounts:
        for stream in account.streams():
            _count(whole, stream, leaders=options.raft)
            if not whole.streams % _STEP_STREAMS:
                yield 0
    for account in _chosen(accounts, options):
        detail = yield from _account(facts, account, options)
        whole.account_details = [*whole.account_details, detail]
    return whole


def jsz_account(facts: Facts, options: JszOptions) -> Steps[AccountJetStream]:
    """One account, gathered in steps, as `$SYS.REQ.ACCOUNT.<account>.JSZ` asks for it.

    Raises:
        BadRequest: it does not exist or has no JetStream.
    """
    jetstream = facts.jetstream
    if jetstream is None or not jetstream.enabled:
        raise BadRequest("jetstream not enabled")
    if options.account not in facts.accounts:
        raise BadRequest(f'account "{options.account}" not found')
    yield from after_received(jetstream)
    for account in jetstream.accounts():
        if account.name == options.account:
            return (yield from _account(facts, account, options))
    raise BadRequest(f'account "{options.account}" not jetstream enabled')


def _whole(
    facts: Facts,
    stats: JetStreamStats,
    config: JetStreamConfig,
    *,
    limits: JetStreamLimits | None = None,
    disabled: bool = False,
) -> Jsz:
    return Jsz(
        **msgspec.structs.asdict(stats),
        server_id=facts.server_id,
        now=facts.now(),
        disabled=disabled,
        config=config,
        limits=limits,
        streams=0,
        consumers=0,
        messages=0,
        bytes=0,
        total=0,
    )


def _count(whole: Jsz, stream: StreamView, *, leaders: bool) -> None:
    state = stream.state()
    consumers = _number(state, "consumer_count")
    whole.streams += 1
    whole.messages += _number(state, "messages")
    whole.bytes += _number(state, "bytes")
    whole.consumers += consumers
    if leaders and stream.is_led:
        whole.streams_leader += 1
        whole.consumers_leader += consumers


def _number(state: ApiObject, key: str) -> int:
    value = state[key]
    assert isinstance(value, int)
    return value


def _chosen(accounts: list[AccountView], options: JszOptions) -> list[AccountView]:
    """The accounts to show in detail. A named one comes before everything else."""
    named = [account for account in accounts if account.name == options.account]
    if named:
        return named
    if not (options.accounts or ((options.streams or options.consumer) and not options.account)):
        return []
    accounts = sorted(accounts, key=lambda account: account.name)
    limit = options.limit or MONITOR_PAGE
    if limit < 0:
        return accounts
    offset = max(options.offset, 0)
    return accounts[offset : offset + limit]


def _account(facts: Facts, account: AccountView, options: JszOptions) -> Steps[AccountJetStream]:
    details: list[StreamDetail] = []
    for stream in account.streams() if options.streams or options.consumer else ():
        if options.stream_leader_only and not stream.is_led:
            continue
        details.append(_stream(stream, options))
        if not len(details) % _STEP_STREAMS:
            yield 0
    stats = account.stats()
    configured = next((one.jetstream for one in facts.options.accounts if one.name == account.name), None)
    limits = configured or AccountJetStreamOptions()
    return AccountJetStream(
        name=account.name,
        id=account.name,
        memory=stats.memory,
        storage=stats.storage,
        # What is reserved for an account is its limit.
        reserved_memory=limits.max_memory % _UNSIGNED,
        reserved_storage=limits.max_store % _UNSIGNED,
        accounts=0,
        ha_assets=0,
        # The level is the server's.
        api=ApiStats(0, stats.api.total, stats.api.errors),
        stream_detail=details,
    )


def _stream(stream: StreamView, options: JszOptions) -> StreamDetail:
    group = stream.raft_group() if options.raft else ""
    consumers = _consumers(stream, options, direct=False) if options.consumer else []
    return StreamDetail(
        name=stream.name,
        created=stream.created,
        cluster=stream.cluster(),
        config=stream.config() if options.config else None,
        state=stream.state(),
        consumer_detail=consumers,
        direct_consumer_detail=(
            _consumers(stream, options, direct=True) if options.consumer and options.direct_consumer else []
        ),
        mirror=stream.mirror(),
        sources=stream.sources(),
        stream_raft_group=group,
        consumer_raft_groups=[ConsumerGroup(str(one["name"]), group) for one in consumers] if group else [],
    )


def _consumers(stream: StreamView, options: JszOptions, *, direct: bool) -> list[ApiObject]:
    infos = stream.consumers(direct=direct)
    if options.config:
        return infos
    return [{key: value for key, value in info.items() if key != "config"} for info in infos]
