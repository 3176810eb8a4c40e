"""Lists as long as a request can carry: compared in steps that grow with their length, or refused."""

from __future__ import annotations

import pytest

from slipstream.jetstream.config.structs import ConsumerConfig, StreamConfig, StreamSource, SubjectTransformConfig
from slipstream.jetstream.config.validate import ConfigContext, checked
from slipstream.jetstream.consumer import config as consumer_config
from slipstream.jetstream.consumer.filters import Filters
from slipstream.jetstream.errors import TableError
from slipstream.subjects.collisions import covers_all, overlap_within, subset_within

ALONE = ConfigContext(find_stream=lambda _: None)
# Every pattern has its wildcards in other places, and a last token of its own.
ENTANGLED = [
    ".".join(["*" if number >> bit & 1 else "a" for bit in range(11)] + [str(number)]) for number in range(2048)
]


@pytest.mark.parametrize("length", [3, 33, 3000])
def test_a_long_list_names_its_overlap_as_a_short_one_does(length: int) -> None:
    subjects = [f"s.{number}" for number in range(length)]
    assert checked(StreamConfig(name="S", subjects=subjects), ALONE).subjects == subjects
    with pytest.raises(TableError, match=r'subject "s.1" overlaps with "\*.1"'):
        checked(StreamConfig(name="S", subjects=[*subjects, "*.1"]), ALONE)


def test_an_invalid_subject_is_found_behind_a_long_list() -> None:
    subjects = [f"s.{number}" for number in range(3000)]
    with pytest.raises(TableError, match="invalid subject"):
        checked(StreamConfig(name="S", subjects=[*subjects, "a..b"]), ALONE)


def test_subjects_that_cannot_be_compared_in_time_are_refused() -> None:
    with pytest.raises(TableError, match="wildcards in too many different places"):
        checked(StreamConfig(name="S", subjects=ENTANGLED), ALONE)


@pytest.mark.parametrize("length", [3, 33, 3000])
def test_long_lists_of_transforms(length: int) -> None:
    transforms = [SubjectTransformConfig(src=f"s.{number}.*", dest="") for number in range(length)]
    twice = [*transforms, SubjectTransformConfig(src="s.1.*", dest="")]
    checked(StreamConfig(name="S", sources=[StreamSource(name="O", subject_transforms=transforms)]), ALONE)
    checked(StreamConfig(name="S", mirror=StreamSource(name="O", subject_transforms=transforms)), ALONE)
    with pytest.raises(TableError, match="source filters can not overlap"):
        checked(StreamConfig(name="S", sources=[StreamSource(name="O", subject_transforms=twice)]), ALONE)
    with pytest.raises(TableError, match="mirror subject filters can not overlap"):
        checked(StreamConfig(name="S", mirror=StreamSource(name="O", subject_transforms=twice)), ALONE)


def test_filters_that_cannot_be_compared_in_time_are_refused() -> None:
    context = consumer_config.ConsumerContext(StreamConfig(name="S", subjects=[">"]), 0, 0, 0)
    with pytest.raises(TableError, match="wildcards in too many different places"):
        consumer_config.checked(ConsumerConfig(durable_name="C", filter_subjects=ENTANGLED), context)


def test_what_cannot_be_compared_is_not_taken_as_covered() -> None:
    encoded = [subject.encode() for subject in ENTANGLED]
    assert not covers_all(encoded, encoded)
    assert Filters(ENTANGLED, ENTANGLED).for_store


def test_a_long_list_covers_a_long_list() -> None:
    wide, narrow = [b"%d.*" % number for number in range(2000)], [b"%d.a" % number for number in range(2000)]
    assert covers_all(wide, narrow)
    assert not covers_all(wide, [*narrow, b"x.a"])


def test_short_and_long_lists_agree() -> None:
    for subjects, overlapping, contained in (
        ([b"a.*", b"*.b"], True, False),
        ([b"a.*", b"a.b"], True, True),
        ([b"a.b", b"a.c"], False, False),
        ([b"a", b"a"], True, True),
    ):
        padded = [*subjects, *(b"pad.%d.x" % number for number in range(100))]
        for some in (subjects, padded):
            assert (overlap_within(some) is not None) is overlapping
            assert subset_within(some) is contained


def test_streams_in_layers_are_each_visited_once() -> None:
    """Ten layers of ten streams, each with all of the next layer as sources: 10^10 ways from top to bottom."""
    streams: dict[str, StreamConfig] = {}
    for layer in range(10):
        for place in range(10):
            name = f"L{layer}P{place}"
            sources = [StreamSource(name=f"L{layer + 1}P{one}", filter_subject="f") for one in range(10)]
            streams[name] = StreamConfig(name=name, subjects=[name], sources=sources if layer < 9 else [])
    asked: list[str] = []

    def find(name: str) -> StreamConfig | None:
        asked.append(name)
        return streams.get(name)

    checked(streams["L0P0"], ConfigContext(find_stream=find))
    assert len(asked) < 10_000
