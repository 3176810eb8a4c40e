"""Templates: streams that are made when something is first published to them, asked for by metadata (ADR 95).

    slipstream.template       the name of each stream: {n} stands for the n-th token of the subject
    slipstream.template.max   how many streams there may be
    slipstream.template.idle  a stream that is empty goes when nothing came for so long, such as 30m
    slipstream.template.of    in a stream that was made like that: its template

A template has one subject, with wildcards. It stores nothing itself.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from slipstream.dataclass import dataclass
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import invalid_config
from slipstream.jetstream.gojson.times import parse_duration
from slipstream.units import SECOND_NS

__all__ = [
    "TEMPLATE_KEY",
    "TEMPLATE_OF_KEY",
    "TemplateRule",
    "check_still_template",
    "check_template",
    "check_template_of_cluster",
    "is_template",
    "rule_of",
]

TEMPLATE_KEY: Final = "slipstream.template"
TEMPLATE_OF_KEY: Final = f"{TEMPLATE_KEY}.of"
_MAX: Final = f"{TEMPLATE_KEY}.max"
_IDLE: Final = f"{TEMPLATE_KEY}.idle"
_KNOWN: Final = (TEMPLATE_KEY, _MAX, _IDLE, TEMPLATE_OF_KEY)
_STREAMS: Final = 1_000
_STREAMS_MAX: Final = 10_000  # each has files, and a place in memory
_PLACE: Final = re.compile(r"\{([1-9][0-9]?)\}")


@dataclass(frozen=True, slots=True)
class TemplateRule:
    """What a template says, checked."""

    name: str  # with places
    subject: str  # with wildcards
    places: tuple[int, ...]  # tokens of the subject that are in the name, from 1
    limit: int
    idle_ns: int  # 0: streams stay

    def name_for(self, subject: str) -> str:
        """The name of the stream that takes this subject."""
        tokens = subject.split(".")
        return _PLACE.sub(lambda found: tokens[int(found[1]) - 1], self.name)

    def subject_for(self, subject: str) -> str:
        """What that stream collects: the template's subject, with the tokens that are in its name."""
        given, tokens = subject.split("."), self.subject.split(".")
        return ".".join(given[at] if at + 1 in self.places else token for at, token in enumerate(tokens))

    def stream_for(self, template: StreamConfig, subject: str) -> StreamConfig:
        """The configuration of that stream."""
        metadata = {key: value for key, value in template.metadata.items() if not key.startswith(TEMPLATE_KEY)}
        return msgspec.structs.replace(
            template,
            name=self.name_for(subject),
            subjects=[self.subject_for(subject)],
            metadata={**metadata, TEMPLATE_OF_KEY: template.name},
        )


def is_template(config: StreamConfig) -> bool:
    """Whether a stream is a template for others."""
    return TEMPLATE_KEY in config.metadata


def rule_of(config: StreamConfig) -> TemplateRule:
    """What a template says.

    Raises:
        TableError: 10052, it is not one, or not a whole one.
    """
    metadata = config.metadata
    name = metadata[TEMPLATE_KEY]
    if len(config.subjects) != 1:
        raise invalid_config(f"{TEMPLATE_KEY} needs one subject")
    tokens = config.subjects[0].split(".")
    places = tuple(int(found) for found in _PLACE.findall(name))
    if not places or any(place > len(tokens) or tokens[place - 1] != "*" for place in places):
        raise invalid_config(f"{TEMPLATE_KEY} must have places such as {{2}}, each for a * of the subject")
    if "{" in _PLACE.sub("", name) or "}" in _PLACE.sub("", name):
        raise invalid_config(f"{TEMPLATE_KEY} has braces around something that is no number of a token")
    limit = metadata.get(_MAX, str(_STREAMS))
    if not (limit.isascii() and limit.isdecimal() and len(limit) <= 6 and 1 <= int(limit) <= _STREAMS_MAX):
        raise invalid_config(f"{_MAX} must be a number between 1 and {_STREAMS_MAX}")
    return TemplateRule(name, config.subjects[0], places, int(limit), _idle_ns(metadata.get(_IDLE)))


def _idle_ns(text: str | None) -> int:
    if text is None:
        return 0
    idle_ns = parse_duration(text)
    if idle_ns is None or idle_ns < SECOND_NS:
        raise invalid_config(f"{_IDLE} must be a duration of a second or more, such as 30m")
    return idle_ns


def check_template(config: StreamConfig) -> None:
    """Whether a stream can be the template that it asks to be.

    Raises:
        TableError: 10052.
    """
    asked = [key for key in config.metadata if key.startswith(TEMPLATE_KEY)]
    for key in asked:
        if key not in _KNOWN:
            raise invalid_config(f"unknown metadata {key}, known are {', '.join(_KNOWN)}")
    if not is_template(config):
        if any(key != TEMPLATE_OF_KEY for key in asked):
            raise invalid_config(f"{asked[0]} needs {TEMPLATE_KEY}")
        return
    if TEMPLATE_OF_KEY in asked:
        raise invalid_config(f"{TEMPLATE_OF_KEY} is for streams that a template made")
    if config.mirror is not None or config.sources:
        raise invalid_config(f"{TEMPLATE_KEY} is not for mirrors or sources")
    rule_of(config)


def check_template_of_cluster(config: StreamConfig) -> None:
    """Whether servers of a cluster can do what a template asks for.

    Raises:
        TableError: 10052, idle streams are to go: that nothing was acknowledged meanwhile is known to who leads each,
            and that it goes is agreed on by all.
    """
    if is_template(config) and _IDLE in config.metadata:
        raise invalid_config(f"{_IDLE} is not for clusters: idle streams stay until they are deleted")


def check_still_template(old: StreamConfig, new: StreamConfig) -> None:
    """A template stores nothing and a stream does, for their whole lives.

    Raises:
        TableError: 10052, an update makes one of the other.
    """
    if is_template(old) != is_template(new):
        raise invalid_config(f"stream configuration update can not begin or end {TEMPLATE_KEY}")
