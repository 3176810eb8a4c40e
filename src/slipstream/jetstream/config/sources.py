"""Rules for mirrors and sources."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.structs import StreamConfig, StreamSource, SubjectTransformConfig
from slipstream.jetstream.errors import TableError, invalid_config
from slipstream.jetstream.errors_table import ErrorSpec
from slipstream.jetstream.gojson.scan import go_quote
from slipstream.kernels.subjects.subject import is_literal, is_valid_publish, is_valid_subscription, overlaps
from slipstream.subjects.collisions import COMPARE_STEPS_MAX, SubjectSet, overlap_within, subset_within
from slipstream.subjects.transform import transform_problem

__all__ = ["check_filters", "check_sources", "destination_problem"]

_NAME_FORBIDDEN = frozenset(" \t\r\n\f\0.*>\\/")
_API_PREFIX = "$JS.API"

FindStream = Callable[[str], StreamConfig | None]


def check_sources(config: StreamConfig, find_stream: FindStream, *, pedantic: bool) -> None:
    """Check `config.mirror` and `config.sources` against every rule nats-server has for them.

    Raises:
        TableError: the first rule broken.
    """
    if config.mirror is not None:
        _check_mirror(config, config.mirror, find_stream, pedantic)
    if config.sources and config.allow_msg_schedules:
        raise TableError(table.SOURCE_WITH_MSG_SCHEDULES)
    _check_each_source(config, find_stream)
    copies = [source for source in (config.mirror, *config.sources) if source is not None]
    if not copies:
        return
    _check_prefixes(copies, find_stream)
    _check_cycle(config, find_stream)


def check_filters(config: StreamConfig) -> None:
    """Check the filters themselves, which nats-server does only when a stream is made, and last.

    Raises:
        TableError: 10049.
    """
    mirror = config.mirror
    if mirror is not None and _bad_filter(mirror.filter_subject):
        raise TableError(
            table.STREAM_CREATE, err=f"subject filter '{mirror.filter_subject}' for the mirror invalid subject"
        )
    for source in config.sources:
        if source is not None and _bad_filter(source.filter_subject):
            text = f"subject filter '{source.filter_subject}' for the source: invalid subject"
            raise TableError(table.STREAM_CREATE, err=text)


def _bad_filter(subject: str) -> bool:
    return bool(subject) and not is_valid_subscription(subject.encode())


def _valid_name(name: str) -> bool:
    return bool(name) and not _NAME_FORBIDDEN.intersection(name)


def _check_mirror(config: StreamConfig, mirror: StreamSource, find_stream: FindStream, pedantic: bool) -> None:
    excluded: tuple[tuple[object, ErrorSpec], ...] = (
        (config.first_seq, table.MIRROR_WITH_FIRST_SEQ),
        (config.subjects, table.MIRROR_WITH_SUBJECTS),
        (config.sources, table.MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, table.MIRROR_WITH_COUNTERS),
        (config.allow_atomic, table.MIRROR_WITH_ATOMIC_PUBLISH),
        (config.allow_batched, table.MIRROR_WITH_BATCH_PUBLISH),
        (config.allow_msg_schedules, table.MIRROR_WITH_MSG_SCHEDULES),
        (_bad_consumer(mirror), table.MIRROR_DURABLE_CONSUMER_CFG_INVALID),
        (mirror.filter_subject and mirror.subject_transforms, table.MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED),
    )
    for present, spec in excluded:
        if present:
            raise TableError(spec)
    if config.subject_delete_marker_ttl_ns > 0:
        raise invalid_config("subject delete markers forbidden on mirrors")
    pair = overlap_within([transform.src.encode() for transform in mirror.subject_transforms])
    for index, transform in enumerate(mirror.subject_transforms):
        _check_transform(transform, table.MIRROR_INVALID_SUBJECT_FILTER, table.MIRROR_INVALID_TRANSFORM_DESTINATION)
        if pair is not None and index == pair[0]:
            raise TableError(table.MIRROR_OVERLAPPING_SUBJECT_FILTERS)
    if mirror.external is not None:
        return
    if not _valid_name(mirror.name):
        raise TableError(table.MIRROR_INVALID_STREAM_NAME)
    origin = find_stream(mirror.name)
    if origin is None:
        return
    if 0 < config.max_msg_size < origin.max_msg_size:
        raise TableError(table.MIRROR_MAX_MESSAGE_SIZE_TOO_BIG)
    if pedantic and config.mirror_direct != origin.allow_direct:
        raise TableError(table.PEDANTIC, err="origin stream has direct get set, mirror has it disabled")
    config.mirror_direct = origin.allow_direct


def _check_each_source(config: StreamConfig, find_stream: FindStream) -> None:
    identities: set[tuple[object, ...]] = set()
    consumers: set[tuple[object, ...]] = set()
    for source in config.sources:
        if source is None or not _valid_name(source.name):
            raise TableError(table.SOURCE_INVALID_STREAM_NAME)
        identity = _identity(source)
        if identity in identities:
            raise TableError(table.SOURCE_DUPLICATE_DETECTED)
        identities.add(identity)
        if source.filter_subject and source.subject_transforms:
            raise TableError(table.SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED)
        for transform in source.subject_transforms:
            _check_transform(transform, table.SOURCE_INVALID_SUBJECT_FILTER, table.SOURCE_INVALID_TRANSFORM_DESTINATION)
        if subset_within([transform.src.encode() for transform in source.subject_transforms]):
            raise TableError(table.SOURCE_OVERLAPPING_SUBJECT_FILTERS)
        if _bad_consumer(source):
            raise TableError(table.SOURCE_DURABLE_CONSUMER_CFG_INVALID)
        if source.consumer is not None:
            consumer = (source.name, source.external and source.external.api, source.consumer.name)
            if consumer in consumers:
                raise TableError(table.SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED)
            consumers.add(consumer)
        origin = find_stream(source.name) if source.external is None else None
        if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
            raise TableError(table.SOURCE_MAX_MESSAGE_SIZE_TOO_BIG)


def _identity(source: StreamSource) -> tuple[object, ...]:
    """Two sources of one stream may not agree in all of this."""
    mappings: tuple[tuple[str, str], ...] = ((source.filter_subject or ">", ">"),)
    if source.subject_transforms:
        mappings = tuple((transform.src or ">", transform.dest or ">") for transform in source.subject_transforms)
    external = source.external and source.external.api
    consumer = source.consumer and source.consumer.name
    return (source.name, external, consumer, mappings)


def _check_transform(transform: SubjectTransformConfig, bad_source: ErrorSpec, bad_destination: ErrorSpec) -> None:
    if transform.src and not is_valid_subscription(transform.src.encode()):
        raise TableError(bad_source, err=f"invalid subject {transform.src}")
    problem = destination_problem(transform.src, transform.dest)
    if problem is not None:
        raise TableError(bad_destination, err=problem)


def _bad_consumer(source: StreamSource) -> bool:
    """A given consumer decides where to start and what to filter, so the source may not."""
    consumer = source.consumer
    if consumer is None:
        return False
    subject = consumer.deliver_subject.encode()
    return (
        not _valid_name(consumer.name)
        or not is_literal(subject)
        or not is_valid_subscription(subject)
        or source.opt_start_seq != 0
        or source.opt_start_time_ns is not None
        or bool(source.filter_subject)
    )


def _check_prefixes(copies: list[StreamSource], find_stream: FindStream) -> None:
    externals = [source.external for source in copies if source.external is not None]
    origins = {source.name: find_stream(source.name) for source in copies if source.external is None}
    # Behind a prefix a subject has more tokens than before, so only one that takes any number of them meets itself.
    open_ended: SubjectSet[str] = SubjectSet()
    for subject in (subject for origin in origins.values() if origin is not None for subject in origin.subjects):
        if externals and subject.endswith(">"):
            open_ended.add(subject.encode(), subject)
    for deliver in dict.fromkeys(external.deliver for external in externals if external.deliver):
        if not is_valid_publish(deliver.encode()):
            raise TableError(table.STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ, prefix=deliver)
        for subject in open_ended.overlapping(f"{deliver}.>".encode(), COMPARE_STEPS_MAX // len(externals)):
            if overlaps(subject.encode(), f"{deliver}.{subject}".encode()):
                raise TableError(table.STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS, prefix=deliver, subject=subject)
    for external in externals:
        if not external.api:
            continue
        if not is_valid_publish(external.api.encode()):
            raise invalid_config(
                f"stream external api prefix {go_quote(external.api)} must be a valid subject without wildcards"
            )
        if overlaps(external.api.encode(), _API_PREFIX.encode()):
            raise TableError(table.STREAM_EXTERNAL_API_OVERLAP, prefix=external.api, subject=_API_PREFIX)


def _check_cycle(config: StreamConfig, find_stream: FindStream) -> None:
    to_visit = deque([config])
    visited: set[str] = set()
    while to_visit:
        current = to_visit.popleft()
        if current.name in visited:
            continue  # several ways lead here, and each would be walked for every one behind it
        visited.add(current.name)
        own: SubjectSet[int] | None = None
        for source in current.sources:
            if source is None or source.external is not None:
                continue
            if source.name in visited:
                if own is None:
                    own = SubjectSet(subject.encode() for subject in current.subjects)
                if not source.filter_subject or own.overlapping(source.filter_subject.encode(), COMPARE_STEPS_MAX):
                    raise invalid_config("detected cycle")
                continue
            origin = find_stream(source.name)
            if origin is not None:
                to_visit.append(origin)
        mirror = current.mirror
        if mirror is not None and mirror.external is None:
            if mirror.name in visited:
                raise invalid_config("detected cycle")
            origin = find_stream(mirror.name)
            if origin is not None:
                to_visit.append(origin)


def destination_problem(source: str, destination: str) -> str | None:
    """What is wrong with a transform, in nats-server's words; without a destination nothing is transformed."""
    return transform_problem(source, destination) if destination else None
