"""Consumers as nats-server keeps them: `meta.inf` with their configuration, `o.dat` with what was delivered."""

from __future__ import annotations

import json
from dataclasses import dataclass

from slipstream.errors import ApiError
from slipstream.jetstream.backup.consumers import SavedState, state_of
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.config.enums import DeliverPolicy
from slipstream.jetstream.config.structs import CONSUMER_CONFIG, ConsumerConfig, StreamConfig
from slipstream.jetstream.config.versioning import consumer_level, with_required_level
from slipstream.jetstream.consumer.acks import AckEngine
from slipstream.jetstream.consumer.config import ConsumerContext, checked
from slipstream.jetstream.consumer.filters import Filters, subjects_of
from slipstream.jetstream.consumer.start import first_position
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.gojson import JsonError
from slipstream.jetstream.gojson.times import parse_time
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.admission.known_subjects import known_subjects
from slipstream.migrate.errors import MigrationError

__all__ = ["SourceConsumer", "consumer_from", "state_in"]


@dataclass(frozen=True, slots=True)
class SourceConsumer:
    """One consumer of the source."""

    name: str
    config: ConsumerConfig
    config_json: bytes
    created_ns: int
    state: SavedState | None  # None: it never delivered anything


def consumer_from(name: str, config_json: bytes, state: SavedState | None, now_ns: int) -> SourceConsumer:
    """A consumer from its stored configuration.

    Raises:
        MigrationError: the configuration is not one, or says what is not known here.
    """
    try:
        members = json.loads(config_json)
        created = members.pop("Created", "")
        members["name"] = members.pop("Name", members.get("name", ""))
        cleaned = json.dumps(members).encode()
        config = CONSUMER_CONFIG.decode(cleaned)
        created_ns = parse_time(created) if created else 0
    except (JsonError, ValueError, AttributeError) as error:
        raise MigrationError(f"its configuration cannot be used here: {error}") from None
    return SourceConsumer(name, config, cleaned, created_ns if created_ns > 0 else now_ns, state)


def state_in(consumer: SourceConsumer, stream: StreamConfig, store: Store) -> ConsumerState:
    """The consumer as it is kept here, in a store that has all messages.

    Raises:
        MigrationError: the server would not take it.
    """
    try:
        if consumer.state is not None:
            state = state_of(consumer.name, consumer.config_json, consumer.state, consumer.created_ns)
        else:
            state = _new_state(consumer, stream, store)
        config = state.config
        if not config.durable_name:
            config.name = consumer.name
        config.num_replicas = min(config.num_replicas, 1)
        config.metadata = with_required_level(config.metadata, consumer_level(config))
        state.config = checked(config, ConsumerContext(stream))
    except (BadBackup, ApiError) as error:
        raise MigrationError(f"consumer {consumer.name}: {error}") from None
    return state


def _new_state(consumer: SourceConsumer, stream: StreamConfig, store: Store) -> ConsumerState:
    """It delivered nothing: it begins where one that is made now would, with the messages there are."""
    config = consumer.config
    filters = Filters(subjects_of(config), known_subjects(stream, store))
    one_per_subject = stream.max_msgs_per_subject == 1
    if config.deliver_policy is DeliverPolicy.NEW:
        # What came since it was made counts as new.
        next_seq, resume_seq = min(store.seq_for_time(consumer.created_ns), store.last_seq + 1), 0
    else:
        next_seq, resume_seq = first_position(config, store, filters, one_per_subject=one_per_subject)
    acks = AckEngine(next_seq)
    return ConsumerState(config, consumer.created_ns, next_seq, acks, resume_seq=resume_seq, trusted_from=next_seq)
