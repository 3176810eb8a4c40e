"""How a mirror or a source looks in a StreamInfo."""

from __future__ import annotations

from slipstream.jetstream.config.structs import EXTERNAL, TRANSFORM, StreamSource
from slipstream.jetstream.stream.commit.pubacks import error_object
from slipstream.jetstream.stream.copies.source_feed import SourceFeed

__all__ = ["source_fields"]

_NEVER = -1


def source_fields(source: StreamSource, feed: SourceFeed, now_ns: int, *, filtered: bool = True) -> dict[str, object]:
    """The members of a StreamSourceInfo; `filtered=False` leaves the filter out."""
    fields: dict[str, object] = {"name": source.name}
    if source.external is not None:
        fields["external"] = EXTERNAL.wire(source.external)
    fields["lag"] = feed.lag
    fields["active"] = max(now_ns - feed.last_heard_ns, 0) if feed.last_heard_ns else _NEVER
    if feed.error is not None:
        fields["error"] = error_object(feed.error)
    if source.filter_subject and filtered:
        fields["filter_subject"] = source.filter_subject
    if source.subject_transforms:
        fields["subject_transforms"] = [TRANSFORM.wire(transform) for transform in source.subject_transforms]
    return fields
