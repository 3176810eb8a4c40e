"""The JetStream API of an account in a cluster: what is about more than one stream, and the step-down of leaders.

The meta group's leader judges a request, has it agreed on, and whoever leads the stream answers when it is so. What is
about one stream is answered by the ordinary handlers, on the server that leads it (`Coordinator.gate`).

    create ──► checks, placement ──► agreed on ──► asks the stream's servers ──► the leader answers the caller
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final

import msgspec

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api import bodies
from slipstream.jetstream.api.account import limit_fields
from slipstream.jetstream.api.dispatch import ApiDispatcher
from slipstream.jetstream.api.limits import API_LIST_MAX, API_NAMES_MAX
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.api.rights import judge_stream
from slipstream.jetstream.api.streams import asked_to_create
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import STREAM_CONFIG_REQUEST, ConsumerLimits, StreamConfig, StreamConfigRequest
from slipstream.jetstream.config.versioning import API_LEVEL
from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import AccountLimits
from slipstream.replication.api.agreement import Agreement
from slipstream.replication.coordinator import Coordinator
from slipstream.replication.descriptions import (
    BEYOND,
    LIST,
    USAGE,
    BeyondLimits,
    ListStreams,
)
from slipstream.replication.ids import NO_NODE, short_id
from slipstream.replication.meta.checks import AccountRules, changed_config, check_movable, new_config, tier_of
from slipstream.replication.meta.entries import Assignment, stream_key
from slipstream.replication.meta.group import MetaGroup
from slipstream.replication.meta.moves import changed_assignment, without_peer
from slipstream.replication.meta.placement import place, place_anywhere
from slipstream.replication.stepdown import next_leader
from slipstream.units import SECOND_NS

__all__ = ["ClusterApi", "new_assignment"]

_PAGING: Final = {"total": 0, "offset": 0, "limit": 0}
_GATHERED_WITHIN_NS: Final = 4 * SECOND_NS


class ClusterApi:
    """Handlers of one account."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher, node: Coordinator) -> None:
        """Register the handlers."""
        self._account = account
        self._counters = api.counters
        self._node = node
        self._agreement = Agreement(node, account.ports, account.name)
        register = api.register
        register("INFO", "account_info_response", self.info)
        register("STREAM.CREATE.*", "stream_create_response", self.create)
        register("STREAM.UPDATE.*", "stream_update_response", self.update)
        register("STREAM.DELETE.*", "stream_delete_response", self.delete)
        register("STREAM.NAMES", "stream_names_response", self.names, error_fields={**_PAGING, "streams": None})
        register("STREAM.LIST", "stream_list_response", self.list, error_fields={**_PAGING, "streams": []})
        register("STREAM.LEADER.STEPDOWN.*", "stream_leader_stepdown_response", self.step_down)
        register("CONSUMER.LEADER.STEPDOWN.*.*", "consumer_leader_stepdown_response", self.step_down)
        # Both move what is there and lose nothing, so there is nothing that one does and the other does not.
        for call in ("STREAM.PEER.REMOVE.*", "STREAM.PEER.EVACUATE.*"):
            register(call, "stream_remove_peer_response", self.remove_peer)
        account.stored_elsewhere.append(self._stores)

    def _stores(self, subject: bytes) -> bool:
        """Whether some stream of the account stores a subject, and acknowledges it."""
        held = self._node.state.account(self._account.name)
        return any(not held.streams[name].config.no_ack for name in held.holdings.collecting(subject))

    # --- streams ----------------------------------------------------------------------------------------------------

    def create(self, request: ApiRequest) -> None:
        """Make a stream, or confirm that it is there."""
        self._node.origins.of(request, lambda cluster: self._create(request, cluster))

    def _create(self, request: ApiRequest, cluster: str) -> None:
        asked = asked_to_create(request)
        meta = self._agreement.meta
        draft, name = meta.draft, self._account.name
        assert draft is not None
        held = draft.account(name)
        config = asked.config()
        judge_stream(request, config, held.config_of(config.name))
        config, existing = new_config(config, held, self._rules(), pedantic=asked.pedantic)
        if existing is not None:
            self._agreement.answer(request, existing, {})
            return
        made = new_assignment(self._account, config, self._node, meta, cluster)

        def announce() -> None:
            if made.is_replicated:
                self._account.advisories.stream_action(made.name, "create")

        self._agreement.agree(request, made, {"did_create": True}, announce)

    def update(self, request: ApiRequest) -> None:
        """Replace a stream's configuration."""
        asked = bodies.decode(STREAM_CONFIG_REQUEST, request)
        if asked.name != request.names[0]:
            raise TableError(table.STREAM_MISMATCH)
        self._update(request, asked, None)

    def _update(self, request: ApiRequest, asked: StreamConfigRequest, allowed: ConsumerLimits | None) -> None:
        """The same; `allowed`: limits that no consumer of the stream exceeds."""
        draft = self._agreement.meta.draft
        assert draft is not None
        held = draft.account(self._account.name)
        config = asked.config()
        judge_stream(request, config, held.config_of(config.name))
        config, existing = changed_config(config, held, self._rules(), pedantic=asked.pedantic)
        limits = config.consumer_limits
        if limits not in (existing.config.consumer_limits, allowed):
            self._look_at_consumers(request, existing, limits, lambda: self._update(request, asked, limits))
            return
        leader = self._node.leader_of(existing)
        self._agreement.agree(request, changed_assignment(existing, config, draft, self._node.around, leader), {})

    def _look_at_consumers(
        self, request: ApiRequest, existing: Assignment, limits: ConsumerLimits, then: Callable[[], None]
    ) -> None:
        """Consumers are known to who leads the stream: ask whether some of them exceed other limits."""

        def answered(_node: int, body: bytes) -> None:
            end()
            names = msgspec.msgpack.decode(body, type=list[str])
            if names:
                text = f"change to limits violates consumers: {', '.join(names)}"
                request.fail(TableError(table.STREAM_UPDATE, err=text))
            else:
                request.attempt(then)

        def late() -> None:
            end()
            request.fail(TableError(table.CLUSTER_NOT_AVAIL))

        question = BeyondLimits(existing.account, existing.name, limits.inactive_threshold_ns, limits.max_ack_pending)
        cancel_timer = self._account.ports.call_later(_GATHERED_WITHIN_NS, late)
        cancel_question = self._node.calls.ask(existing.hosts, BEYOND, msgspec.msgpack.encode(question), answered)

        def end() -> None:
            cancel_timer()
            cancel_question()

    def remove_peer(self, request: ApiRequest) -> None:
        """Have another server keep a stream in the place of one."""
        if bodies.is_empty(request.body):
            raise TableError(table.BAD_REQUEST)
        asked = bodies.decode(bodies.STREAM_PEER, request)
        if not asked.peer:
            raise TableError(table.BAD_REQUEST)
        meta = self._agreement.meta
        assert meta.draft is not None
        found = meta.draft.find(self._account.name, request.names[0])
        if found is None:
            raise TableError(table.STREAM_NOT_FOUND)
        peer = next((one for one in found.hosts if asked.peer in (self._node.name_of(one), short_id(one))), None)
        if peer is None:
            raise TableError(table.CLUSTER_PEER_NOT_MEMBER)
        check_movable(found)
        wanted = without_peer(found, peer, meta.draft, self._node.around)

        def done(is_done: bool) -> None:
            if is_done:
                request.respond({"success": True})
            else:
                request.fail(TableError(table.CLUSTER_NOT_AVAIL))

        meta.propose([wanted], done)

    def delete(self, request: ApiRequest) -> None:
        """Remove a stream."""
        if not bodies.is_empty(request.body):
            raise TableError(table.NOT_EMPTY_REQUEST)
        meta, name = self._agreement.meta, request.names[0]
        assert meta.draft is not None
        found = meta.draft.find(self._account.name, name)
        if found is None:
            raise TableError(table.STREAM_NOT_FOUND)

        def done(is_done: bool) -> None:
            if not is_done:
                request.fail(TableError(table.CLUSTER_NOT_AVAIL))
                return
            request.respond({"success": True})
            if found.is_replicated:
                self._account.advisories.stream_action(name, "delete")

        meta.propose([stream_key(self._account.name, name)], done)

    # --- many streams -----------------------------------------------------------------------------------------------

    def names(self, request: ApiRequest) -> Mapping[str, object]:
        """A page of names."""
        asked = bodies.decode_optional(bodies.STREAM_NAMES, request)
        names = self._node.state.account(self._account.name).open(asked.subject)
        offset = min(max(asked.offset, 0), len(names))
        page = [*names[offset : offset + API_NAMES_MAX]]
        return {"total": len(names), "offset": offset, "limit": API_NAMES_MAX, "streams": page or None}

    def list(self, request: ApiRequest) -> None:
        """A page of streams, each described by its leader."""
        asked = bodies.decode_optional(bodies.STREAM_LIST, request)
        names = self._node.state.account(self._account.name).open(asked.subject)
        offset = min(max(asked.offset, 0), len(names))
        page = [*names[offset : offset + API_LIST_MAX]]
        described: dict[str, object] = {}

        def take(body: bytes) -> bool:
            for name, fields in msgspec.msgpack.decode(body, type=dict[str, bytes]).items():
                described[name] = msgspec.json.decode(fields)
            return len(described) == len(page)

        def respond() -> None:
            fields: dict[str, object] = {
                "total": len(names),
                "offset": offset,
                "limit": API_LIST_MAX,
                "streams": [described[name] for name in page if name in described],
            }
            missing = [name for name in page if name not in described]
            if missing:
                fields["missing"] = missing
            request.respond(fields)

        if not page:
            respond()
            return
        self._gather(LIST, msgspec.msgpack.encode(ListStreams(self._account.name, page)), take, respond)

    def info(self, request: ApiRequest) -> None:
        """Usage over all servers, limits and the API level."""
        total = {"memory": 0, "storage": 0, "consumers": 0}

        def take(body: bytes) -> bool:
            for key, value in msgspec.msgpack.decode(body, type=dict[str, int]).items():
                total[key] += value
            return False

        self._gather(
            USAGE, msgspec.msgpack.encode(self._account.name), take, lambda: request.respond(self._info_fields(total))
        )

    def _info_fields(self, used: Mapping[str, int]) -> dict[str, object]:
        account, limits = self._account, self._account.limits
        streams = self._node.state.account(account.name).streams.values()

        def usage(tier: str) -> dict[str, object]:
            mine = [one for one in streams if not tier or tier_of(one.config.num_replicas) == tier]
            reserved = {
                storage: sum(
                    max(one.config.max_bytes, 0) * (1 if tier else len(one.peers))
                    for one in mine
                    if one.config.storage is storage
                )
                for storage in StorageType
            }
            return {
                "memory": used["memory"],
                "storage": used["storage"],
                "reserved_memory": reserved[StorageType.MEMORY],
                "reserved_storage": reserved[StorageType.FILE],
                "streams": len(mine),
                "consumers": used["consumers"],
            }

        fields = usage("")
        fields["limits"] = limit_fields(AccountLimits(0, 0, 0, 0, 0, 0, 0) if limits.tiers else limits)
        if account.facts.domain:
            fields["domain"] = account.facts.domain
        fields["api"] = {"level": API_LEVEL, "total": self._counters.total, "errors": self._counters.errors}
        if limits.tiers:
            fields["tiers"] = {
                name: {**usage(name), "limits": limit_fields(tier)} for name, tier in limits.tiers.items()
            }
        return fields

    def _gather(self, method: str, body: bytes, take: Callable[[bytes], bool], done: Callable[[], None]) -> None:
        """Ask all servers that can be reached; `done` when all have answered, `take` has enough, or it is late."""
        asked = set(self._node.online)
        ended = False

        def answered(node: int, answer: bytes) -> None:
            asked.discard(node)
            if take(answer) or not asked:
                finish()

        def finish() -> None:
            nonlocal ended
            if not ended:
                ended = True
                cancel_timer()
                cancel_question()
                done()

        cancel_timer = self._account.ports.call_later(_GATHERED_WITHIN_NS, finish)
        cancel_question = self._node.calls.ask([*asked], method, body, answered)

    # --- leaders ----------------------------------------------------------------------------------------------------

    def step_down(self, request: ApiRequest) -> None:
        """Have another server lead a stream. A consumer's leader is its stream's."""
        stream = self._account.get_stream(request.names[0])
        if len(request.names) > 1 and isinstance(stream.interest, Consumers):
            stream.interest.get(request.names[1])
        replica = self._node.hosting.kept.replica(self._account.name, stream.name)
        assignment = self._node.state.find(self._account.name, stream.name)
        if replica is None or assignment is None or replica.group is None:
            request.respond({"success": True})
            return
        target = next_leader(
            bodies.decode_optional(bodies.LEADER_STEPDOWN, request),
            self._node,
            replica.group.votes.voters,
            replica.group.lags(),
        )
        request.respond({"success": True})
        replica.group.transfer(target)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _rules(self) -> AccountRules:
        return AccountRules(self._account.limits, self._account.checks.context())


def new_assignment(
    account: JetStreamAccount,
    config: StreamConfig,
    node: Coordinator,
    meta: MetaGroup,
    cluster: str,
    *,
    restoring: bool = False,
    leader: int = NO_NODE,
) -> Assignment:
    """A stream that the meta group's leader is about to propose, placed in the cluster of who asks or else in another.

    With a `leader`, which is of that cluster, it is kept there, and this server leads it at first.

    Raises:
        TableError: 10005, there are not enough servers for it.
    """
    assert meta.draft is not None
    if leader == NO_NODE:
        placed = place_anywhere(config, cluster, meta.draft, node.around)
    else:
        placed = place(config, cluster, meta.draft, node.around, keep=(leader,))
    return Assignment(
        account=account.name,
        config=config,
        uid=blake2b(account.ports.new_nuid().encode(), digest_size=16).digest(),
        group=meta.next_group,
        peers=placed.peers,
        preferred=placed.preferred if leader == NO_NODE else leader,
        cluster=placed.cluster,
        created_ns=account.ports.now_ns(),
        restoring=restoring,
        founders=placed.peers if len(placed.peers) > 1 else [],
    )
