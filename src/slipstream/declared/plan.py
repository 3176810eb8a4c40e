"""What has to be done so that a server has what is declared: a list of steps, made by looking only.

Fields that are not declared are left as they are; for something new they are the server's defaults. What is there and
not declared is left alone, unless it is to be pruned. A second plan after the first was carried out is empty.

    declared + what the server has ──► steps: create, update, delete; in an order in which the server takes them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from slipstream.buckets import bucket_config, object_config
from slipstream.declared.differences import differences, user_metadata
from slipstream.declared.nodes import TextPlace
from slipstream.declared.reading import Declaration, Declared

__all__ = ["Infos", "Step", "consumers_needed", "plan"]

Reply = dict[str, Any]  # a configuration, or an answer of the API
Infos = Mapping[str, Reply]  # by name: what STREAM.LIST and CONSUMER.LIST say

# 0 means the server's default for these, so there is nothing to compare.
_ZERO_IS_DEFAULT: Final = frozenset(
    ("ack_wait", "duplicate_window", "max_ack_pending", "max_waiting", "num_replicas", "first_seq")
)
_FILTERS: Final = ("filter_subject", "filter_subjects")
_OF_OTHERS: Final = ("MQTT_", "$MQTT_")  # kept by the server itself


@dataclass(frozen=True)
class Step:
    """One thing to do."""

    action: Literal["create", "update", "delete"]
    what: str  # `stream ORDERS`
    verb: str  # of the API
    body: Reply | None
    changes: tuple[str, ...] = ()  # lines `- field: value` and `+ field: value`
    place: TextPlace | None = None  # of the declaration


def consumers_needed(declared: Declared, streams: Infos) -> list[str]:
    """Streams whose consumers have to be known for a plan."""
    return [one.name for one in declared.streams.values() if one.consumers is not None and one.name in streams]


def plan(declared: Declared, found: Infos, consumers: Mapping[str, Infos], *, prune: bool = False) -> list[Step]:
    """The steps.

    Args:
        declared: what there should be.
        found: the streams that there are.
        consumers: those of the streams that `consumers_needed` names.
        prune: delete what is not declared.
    """
    steps: list[Step] = []
    for one in _in_order(declared.streams):
        steps += _stream(one, f"stream {one.name}", one.name, one.fields, one.fields, found)
        steps += _consumers(one, consumers.get(one.name, {}), prune=prune)
    names = set(declared.streams)
    for prefix, kind, make, buckets in (
        ("KV_", "bucket", bucket_config, declared.kv),
        ("OBJ_", "object store", object_config, declared.objects),
    ):
        for one in buckets.values():
            whole = make(one.name, one.fields)
            wanted = {field: whole[field] for field in _stream_fields(one.fields)}
            steps += _stream(one, f"{kind} {one.name}", f"{prefix}{one.name}", wanted, whole, found)
            names.add(f"{prefix}{one.name}")
    if prune:
        steps += [_removal(name, found[name]) for name in sorted(found) if name not in names and not _is_kept(name)]
    return steps


def _is_kept(name: str) -> bool:
    return name.startswith(_OF_OTHERS)


def _in_order(streams: Mapping[str, Declaration]) -> list[Declaration]:
    """Streams behind those they copy from; a ring is left as it is written, and the server says what it thinks."""
    ordered: dict[str, Declaration] = {}

    def add(one: Declaration, waiting: frozenset[str]) -> None:
        origins = [one.fields["mirror"]] if one.fields.get("mirror") else []
        for origin in origins + list(one.fields.get("sources") or []):
            other = streams.get(origin.get("name", ""))
            if other is not None and other.name not in ordered and other.name not in waiting:
                add(other, waiting | {other.name})
        ordered.setdefault(one.name, one)

    for one in streams.values():
        add(one, frozenset((one.name,)))
    return list(ordered.values())


def _stream(one: Declaration, what: str, name: str, wanted: Reply, whole: Reply, found: Infos) -> Iterator[Step]:
    if name not in found:
        body = {**whole, "name": name}
        yield Step("create", what, f"STREAM.CREATE.{name}", body, tuple(differences({}, wanted)), one.place)
        return
    old = found[name]["config"]
    changed = {field: value for field, value in wanted.items() if not _same(field, value, old.get(field))}
    if changed:
        body = _merged(old, changed)
        yield Step("update", what, f"STREAM.UPDATE.{name}", body, _changes(old, changed), one.place)


def _consumers(stream: Declaration, found: Infos, *, prune: bool) -> Iterator[Step]:
    if stream.consumers is None:
        return
    for one in stream.consumers.values():
        what, verb = f"consumer {stream.name} > {one.name}", f"CONSUMER.CREATE.{stream.name}.{one.name}"
        if one.name not in found:
            config = {"ack_policy": "explicit", **one.fields, "name": one.name, "durable_name": one.name}
            body = {"stream_name": stream.name, "config": config, "action": "create"}
            yield Step("create", what, verb, body, tuple(differences({}, one.fields)), one.place)
            continue
        old = _one_filter_form(found[one.name]["config"], one.fields)
        changed = {field: value for field, value in one.fields.items() if not _same(field, value, old.get(field))}
        if changed:
            body = {"stream_name": stream.name, "config": _merged(old, changed), "action": "update"}
            yield Step("update", what, verb, body, _changes(old, changed), one.place)
    if prune:
        for name in sorted(set(found) - set(stream.consumers)):
            if found[name]["config"].get("durable_name"):  # others go by themselves
                verb = f"CONSUMER.DELETE.{stream.name}.{name}"
                yield Step("delete", f"consumer {stream.name} > {name}", verb, None)


def _one_filter_form(old: Reply, fields: Reply) -> Reply:
    """A consumer with its filters in the form in which they are declared: one, or a list."""
    if not any(name in fields for name in _FILTERS):
        return old
    subjects = old.get("filter_subjects") or ([old["filter_subject"]] if old.get("filter_subject") else [])
    rest = {name: value for name, value in old.items() if name not in _FILTERS}
    if "filter_subjects" in fields:
        return {**rest, "filter_subjects": subjects}
    return {**rest, "filter_subject": subjects[0] if len(subjects) == 1 else ", ".join(subjects)}


def _stream_fields(fields: Reply) -> list[str]:
    """The fields of a bucket's stream that its declaration decides."""
    renamed = {
        "history": ["max_msgs_per_subject"],
        "max_value_size": ["max_msg_size"],
        "max_bucket_size": ["max_bytes"],
        "ttl": ["max_age"],
        "limit_marker_ttl": ["allow_msg_ttl", "subject_delete_marker_ttl"] if fields.get("limit_marker_ttl") else [],
    }
    return [field for name in fields for field in renamed.get(name, [name])]


def _removal(name: str, info: Reply) -> Step:
    what = f"stream {name}"
    for prefix, kind in (("KV_", "bucket"), ("OBJ_", "object store")):
        if name.startswith(prefix):
            what = f"{kind} {name.removeprefix(prefix)}"
    messages = info["state"]["messages"]
    return Step("delete", what, f"STREAM.DELETE.{name}", None, (f"- messages: {messages}",))


def _merged(old: Reply, changed: Reply) -> Reply:
    body = {**old, **changed}
    if "metadata" in body:
        body["metadata"] = {**user_metadata(old), **(changed.get("metadata") or {})}
    if changed.get("max_age") and body.get("duplicate_window", 0) > changed["max_age"] > 0:
        body["duplicate_window"] = changed["max_age"]  # a window cannot be longer
    return body


def _changes(old: Reply, changed: Reply) -> tuple[str, ...]:
    return tuple(differences({field: old.get(field) for field in changed}, changed))


def _same(field: str, declared: Any, found: Any) -> bool:
    """Whether the server has what is declared; it writes no limit as -1, and adds fields of its own to objects."""
    if field == "metadata":
        return all((found or {}).get(key) == value for key, value in declared.items())
    if isinstance(declared, dict):
        return isinstance(found, dict) and all(_same(key, value, found.get(key)) for key, value in declared.items())
    if isinstance(declared, list):
        others = found or []
        return len(declared) == len(others) and all(map(_same, [field] * len(declared), declared, others))
    if declared == 0 and declared is not False and field in _ZERO_IS_DEFAULT:
        return True
    return bool(declared == found) or (_is_nothing(declared) and _is_nothing(found))


def _is_nothing(value: Any) -> bool:
    return value in (None, "", 0, -1)  # False is 0
