"""Configuration: what cannot be compared with nats-server because it depends on limits, or is refused here only."""

import msgspec
import pytest

from slipstream.errors import ApiError
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.structs import (
    CONSUMER_CONFIG,
    STREAM_CONFIG,
    ConsumerConfig,
    StreamConfig,
    StreamSource,
)
from slipstream.jetstream.config.update import updated
from slipstream.jetstream.config.validate import ConfigContext, checked
from slipstream.jetstream.config.versioning import (
    consumer_level,
    same_but_for_versioning,
    stream_level,
    with_required_level,
)
from slipstream.units import MINUTE_NS, SECOND_NS

ALONE = ConfigContext(find_stream=lambda _: None)


def refusal(config: StreamConfig, context: ConfigContext = ALONE, *, pedantic: bool = False) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        checked(config, context, pedantic=pedantic)
    return caught.value.err_code, caught.value.description


def test_the_request_is_not_changed() -> None:
    config = StreamConfig(name="S", subject_delete_marker_ttl_ns=SECOND_NS)
    before = msgspec.structs.replace(config)
    assert checked(config, ALONE) != config
    assert config == before


def test_a_copy_has_no_subject_of_its_own() -> None:
    assert checked(StreamConfig(name="S", mirror=StreamSource(name="M")), ALONE).subjects == []
    assert checked(StreamConfig(name="S", sources=[StreamSource(name="M")]), ALONE).subjects == []


def test_sources_that_form_a_cycle() -> None:
    other = StreamConfig(name="B", subjects=["b"], sources=[StreamSource(name="A")])
    context = ConfigContext(find_stream={"B": other}.get)
    config = StreamConfig(name="A", subjects=["a"], sources=[StreamSource(name="B")])
    assert refusal(config, context) == (10052, "detected cycle")


def test_mirror_must_take_what_the_origin_has() -> None:
    origin = StreamConfig(name="M", max_msg_size=100)
    context = ConfigContext(find_stream={"M": origin}.get)
    assert refusal(StreamConfig(name="S", mirror=StreamSource(name="M"), max_msg_size=50), context)[0] == 10030
    assert refusal(StreamConfig(name="S", sources=[StreamSource(name="M")], max_msg_size=50), context)[0] == 10046


def test_server_limit_of_the_duplicate_window() -> None:
    context = ConfigContext(find_stream=lambda _: None, duplicate_window_max_ns=MINUTE_NS)
    assert checked(StreamConfig(name="S"), context).duplicate_window_ns == MINUTE_NS
    too_long = StreamConfig(name="S", duplicate_window_ns=2 * MINUTE_NS)
    assert refusal(too_long, context) == (10052, "duplicates window can not be larger then server limit of 1m0s")
    assert refusal(StreamConfig(name="S"), context, pedantic=True)[0] == 10157


def test_account_rules_about_max_bytes() -> None:
    context = ConfigContext(
        find_stream=lambda _: None,
        max_bytes_required=True,
        stream_bytes_max=lambda storage: 100 if storage is StorageType.FILE else 0,
    )
    assert refusal(StreamConfig(name="S"), context)[0] == 10113
    assert refusal(StreamConfig(name="S", max_bytes=101), context)[0] == 10122
    assert checked(StreamConfig(name="S", max_bytes=100), context).max_bytes == 100
    assert checked(StreamConfig(name="S", max_bytes=101, storage=StorageType.MEMORY), context).max_bytes == 101


def test_sealing_implies_the_rest() -> None:
    old = checked(StreamConfig(name="S", max_age_ns=SECOND_NS, allow_rollup_hdrs=True), ALONE)
    new = updated(old, msgspec.structs.replace(old, sealed=True))
    assert (new.max_age_ns, new.discard.value, new.deny_delete, new.deny_purge, new.allow_rollup_hdrs) == (
        0,
        "new",
        True,
        True,
        False,
    )


def test_configurations_survive_storage() -> None:
    stream = checked(
        StreamConfig(name="S", subjects=["a.>"], metadata={"b": "2", "a": "1"}, max_age_ns=SECOND_NS, no_ack=True),
        ALONE,
    )
    assert StreamConfig.from_json(stream.to_json()) == stream
    consumer = ConsumerConfig(durable_name="c", backoff_ns=[1, 2], opt_start_time_ns=5, pause_until_ns=7)
    assert ConsumerConfig.from_json(consumer.to_json()) == consumer


def test_every_attribute_has_a_place_on_the_wire() -> None:
    assert [field.attribute for field in STREAM_CONFIG.fields] == list(StreamConfig.__struct_fields__)
    # What its creator may publish to is the server's own knowledge.
    assert [*(field.attribute for field in CONSUMER_CONFIG.fields), "outside"] == list(ConsumerConfig.__struct_fields__)


def test_levels() -> None:
    assert stream_level(StreamConfig()) == 0
    assert stream_level(StreamConfig(allow_msg_ttl=True)) == 1
    assert stream_level(StreamConfig(allow_atomic=True, allow_msg_ttl=True)) == 2
    assert stream_level(StreamConfig(allow_batched=True)) == 4
    assert consumer_level(ConsumerConfig()) == 0
    assert consumer_level(ConsumerConfig(priority_groups=["g"])) == 1


def test_repeated_create_ignores_who_wrote_the_level() -> None:
    stored = StreamConfig(name="S", metadata=with_required_level({"a": "b"}, 0))
    assert same_but_for_versioning(StreamConfig(name="S", metadata={"a": "b", "_nats.ver": "1"}), stored)
    assert not same_but_for_versioning(StreamConfig(name="S", metadata={"a": "c"}), stored)


@pytest.mark.parametrize(
    "subject", ["$JS.EVENT.>", "$JS.EVENT.ADVISORY.API", "$SYS.ACCOUNT.>", "$SYS.ACCOUNT.A.CONNECT"]
)
def test_events_may_be_captured(subject: str) -> None:
    assert checked(StreamConfig(name="S", subjects=[subject]), ALONE).subjects == [subject]


def test_everything_may_be_captured_without_acks() -> None:
    assert checked(StreamConfig(name="S", subjects=[">"], no_ack=True), ALONE).subjects == [">"]
