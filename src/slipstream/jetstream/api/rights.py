"""Subjects that a request names for the server to publish to: whose right counts, and when (ADR 19).

The right is that of whoever names the subject, at that moment. A subject that stays as it is keeps what it was given.

- Deliver subject of a push consumer, destination of a republish, target of a backup: without the right they are for
  clients alone (`subjects.outside`).
- Dead letter subject, API prefix of an external origin: they are there to be acted on, so without the right they are
  refused.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from slipstream.jetstream.api.request import Grants
from slipstream.jetstream.config.structs import ConsumerConfig, StreamConfig, StreamSource
from slipstream.jetstream.consumer.deadletters import DLQ_KEY
from slipstream.jetstream.errors import invalid_config
from slipstream.subjects.outside import outside_only

__all__ = ["Granting", "judge_consumer", "judge_stream", "target_for"]

# A token of a destination that depends on the message. Some functions give several tokens.
_VARIABLE: Final = re.compile(r"\{\{.*?\}\}|\$\d+|\*")


class Granting(Protocol):
    """Whose rights count. `ApiRequest` is one."""

    @property
    def grants(self) -> Grants:
        """Whether who asks may publish to a subject, or to all that a pattern matches."""
        ...


def target_for(request: Granting, subject: str) -> bytes:
    """A subject named in a request, as the server may send to it."""
    target = subject.encode()
    return target if request.grants(target) else outside_only(target)


def judge_consumer(request: Granting, config: ConsumerConfig, old: ConsumerConfig | None) -> None:
    """Mark what the requester may not publish to, and refuse what cannot be marked.

    Raises:
        ApiError: 10052, the dead letters may not be sent there.
    """
    if old is not None and old.deliver_subject == config.deliver_subject:
        config.outside = old.outside
    else:
        config.outside = bool(config.deliver_subject) and not request.grants(config.deliver_subject.encode())
    _check_letters(request, config.metadata, {} if old is None else old.metadata)


def judge_stream(request: Granting, config: StreamConfig, old: StreamConfig | None) -> None:
    """The same for a stream.

    Raises:
        ApiError: 10052, dead letters or requests may not be sent there.
    """
    rule, old_rule = config.republish, old.republish if old is not None else None
    if rule is not None:
        if old_rule is not None and (old_rule.src, old_rule.dest) == (rule.src or ">", rule.dest):
            rule.outside = old_rule.outside
        else:
            rule.outside = not request.grants(_pattern_of(rule.dest))
    _check_letters(request, config.metadata, {} if old is None else old.metadata)
    known: set[str] = (
        set() if old is None else {source.external.api for source in _origins(old) if source.external is not None}
    )
    for source in _origins(config):
        if source.external is None or not source.external.api or source.external.api in known:
            continue
        if not request.grants(f"{source.external.api}.CONSUMER.>".encode()):
            raise invalid_config(f"no permission to publish to external API prefix {source.external.api}")


def _origins(config: StreamConfig) -> list[StreamSource]:
    return [source for source in (config.mirror, *(config.sources or ())) if source is not None]


def _check_letters(request: Granting, metadata: dict[str, str], old: dict[str, str]) -> None:
    subject = metadata.get(DLQ_KEY, "")
    if subject and subject != old.get(DLQ_KEY) and not request.grants(subject.encode()):
        raise invalid_config(f"no permission to publish to dead letter subject {subject}")


def _pattern_of(destination: str) -> bytes:
    """What a destination can become, as a pattern."""
    tokens: list[str] = []
    for token in destination.split("."):
        if token == ">":
            return ".".join([*tokens, ">"]).encode()
        if _VARIABLE.search(token) is None:
            tokens.append(token)
        elif re.match(r"\$\d+$|\*$|\{\{\s*[wW]ildcard", token):
            tokens.append("*")
        else:
            return ".".join([*tokens, ">"]).encode()
    return ".".join(tokens).encode()
