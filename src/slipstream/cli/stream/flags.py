"""The flags of `stream add`, `copy` and `edit`, and the configuration they say.

A row of the table is a flag and what it does to a configuration. Only flags that were given change anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from slipstream.cli.connection import Failure
from slipstream.cli.link import Reply
from slipstream.cli.types import DURATION, SIZE, list_option, pairs_option

__all__ = ["RETENTION", "STORAGE", "config_flags", "with_flags"]

_F = TypeVar("_F", bound=Callable[..., Any])

STORAGE: Final = {"file": "file", "f": "file", "memory": "memory", "m": "memory"}
RETENTION: Final = {
    "limits": "limits",
    "interest": "interest",
    "work": "workqueue",
    "workq": "workqueue",
    "workqueue": "workqueue",
}

# Flags whose value is a field of the configuration as it is: name, field, type, help.
_PLAIN: Final = (
    ("description", "description", str, "A line about the stream."),
    ("compression", "compression", click.Choice(["none", "s2"]), "Compress the files."),
    ("replicas", "num_replicas", int, "Copies in a cluster."),
    ("discard", "discard", click.Choice(["old", "new"]), "What goes when a limit is reached."),
    ("max-bytes", "max_bytes", SIZE, "Most bytes to keep."),
    ("max-msgs", "max_msgs", int, "Most messages to keep."),
    ("max-msgs-per-subject", "max_msgs_per_subject", int, "Most messages to keep of each subject."),
    ("max-msg-size", "max_msg_size", SIZE, "Largest message."),
    ("max-consumers", "max_consumers", int, "Most consumers."),
    ("max-age", "max_age", DURATION, "Longest time to keep a message."),
    ("dupe-window", "duplicate_window", DURATION, "How long message ids are remembered."),
    ("subject-del-markers-ttl", "subject_delete_marker_ttl", DURATION, "How long markers of removed subjects stay."),
)

# Switches `--name/--no-name`: name, field, help, whether the field says the opposite.
_SWITCHES: Final = (
    ("ack", "no_ack", "Acknowledge publishes.", True),
    ("allow-direct", "allow_direct", "Answer gets directly.", False),
    ("allow-mirror-direct", "mirror_direct", "Answer gets from mirrors.", False),
    ("allow-rollup", "allow_rollup_hdrs", "Let a message replace all before it.", False),
    ("allow-msg-ttl", "allow_msg_ttl", "Let messages have a time to live.", False),
    ("allow-batch", "allow_atomic", "Allow atomic batches.", False),
    ("allow-fast", "allow_batched", "Allow fast batches.", False),
    ("allow-counter", "allow_msg_counter", "Make the stream a counter.", False),
    ("allow-schedules", "allow_msg_schedules", "Allow scheduled messages.", False),
    ("deny-delete", "deny_delete", "Refuse to delete messages.", False),
    ("deny-purge", "deny_purge", "Refuse to purge.", False),
)


def config_flags(*, edit: bool) -> Callable[[_F], _F]:
    """The flags about a configuration; the command takes them as `**given`."""
    options: list[Callable[[Any], Any]] = [list_option("--subjects", metavar="SUBJECTS", help="Subjects to store.")]
    if not edit:
        options += [
            click.option("--storage", type=click.Choice(list(STORAGE)), help="Where messages are kept."),
            click.option("--first-sequence", "first_seq", type=int, help="Number of the first message."),
            click.option("--persist-mode", type=click.Choice(["default", "async"]), help="When acks are sent."),
        ]
    options.append(click.option("--retention", type=click.Choice(list(RETENTION)), help="How long messages stay."))
    for name, field, kind, text in _PLAIN:
        options.append(click.option(f"--{name}", field, type=kind, help=text))
    for name, field, text, _ in _SWITCHES:
        options.append(click.option(f"--{name}/--no-{name}", f"switch_{field}", default=None, help=text))
    options += [
        click.option("--discard-per-subject", is_flag=True, default=None, help="Refuse new messages by subject."),
        click.option("--cluster", "placement_cluster", metavar="NAME", help="Place it in a cluster."),
        list_option("--tag", "placement_tags", metavar="TAG", help="Place it on servers with a tag."),
        list_option("--tags", "more_tags", hidden=True),
        click.option("--mirror", metavar="STREAM", help="Copy another stream; a name, or JSON."),
        click.option("--source", "sources", metavar="STREAM", multiple=True, help="Merge from a stream; name or JSON."),
        click.option("--transform-source", metavar="SUBJECT", help="Subjects to store under another name."),
        click.option("--transform-destination", metavar="SUBJECT", help="That name."),
        click.option("--republish-source", metavar="SUBJECT", help="Subjects to publish again once stored."),
        click.option("--republish-destination", metavar="SUBJECT", help="Where to."),
        click.option("--republish-headers", is_flag=True, default=None, help="Without bodies."),
        click.option("--limit-consumer-inactive", type=DURATION, help="Longest idle time consumers may ask for."),
        click.option("--limit-consumer-max-pending", type=int, help="Most unacknowledged messages they may ask for."),
        pairs_option("--metadata", metavar="KEY=VALUE", help="Add metadata."),
    ]
    if edit:
        options += [
            click.option("--no-mirror", is_flag=True, help="Stop mirroring."),
            click.option("--no-transform", is_flag=True, help="Stop transforming subjects."),
            click.option("--no-republish", is_flag=True, help="Stop republishing."),
        ]

    def decorate(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def with_flags(config: Reply, given: dict[str, Any]) -> Reply:
    """A configuration changed by the flags that were given."""
    changed = dict(config)
    for _, field, _, _ in _PLAIN:
        if given.get(field) is not None:
            changed[field] = given[field]
    for name in ("max_age", "duplicate_window"):
        changed.update({name: 0} if changed.get(name) == -1 else {})
    for _, field, _, opposite in _SWITCHES:
        value = given.get(f"switch_{field}")
        if value is not None:
            changed[field] = value != opposite
    if given.get("storage"):
        changed["storage"] = STORAGE[given["storage"]]
    if given.get("retention"):
        changed["retention"] = RETENTION[given["retention"]]
    for field in ("subjects", "first_seq", "persist_mode"):
        if given.get(field):
            changed[field] = given[field]
    if given.get("discard_per_subject"):
        changed |= {"discard": "new", "discard_new_per_subject": True}
    _placement(changed, given)
    _copies(changed, given)
    _subjects(changed, given)
    limits = dict(changed.get("consumer_limits") or {})
    if given.get("limit_consumer_inactive"):
        limits["inactive_threshold"] = given["limit_consumer_inactive"]
    if given.get("limit_consumer_max_pending"):
        limits["max_ack_pending"] = given["limit_consumer_max_pending"]
    if limits:
        changed["consumer_limits"] = limits
    if given.get("metadata"):
        changed["metadata"] = {**(changed.get("metadata") or {}), **given["metadata"]}
    return changed


def _placement(config: Reply, given: dict[str, Any]) -> None:
    placement = dict(config.get("placement") or {})
    if given.get("placement_cluster"):
        placement["cluster"] = given["placement_cluster"]
    tags = [*given.get("placement_tags", ()), *given.get("more_tags", ())]
    if tags:
        placement["tags"] = tags
    if placement:
        config["placement"] = placement


def _copies(config: Reply, given: dict[str, Any]) -> None:
    if given.get("mirror"):
        config["mirror"] = _source(given["mirror"])
    if given.get("sources"):
        config["sources"] = [_source(text) for text in given["sources"]]
    if given.get("no_mirror"):
        config.pop("mirror", None)


def _source(text: str) -> Reply:
    if not text.lstrip().startswith("{"):
        return {"name": text}
    try:
        found: Reply = json.loads(text)
    except ValueError as error:
        raise Failure(f"{text!r} is neither a stream nor JSON: {error}") from error
    return found


def _subjects(config: Reply, given: dict[str, Any]) -> None:
    source, destination = given.get("transform_source"), given.get("transform_destination")
    if bool(source) != bool(destination):
        raise click.UsageError("--transform-source and --transform-destination go together.")
    if source:
        config["subject_transform"] = {"src": source, "dest": destination}
    source, destination = given.get("republish_source"), given.get("republish_destination")
    if bool(source) != bool(destination):
        raise click.UsageError("--republish-source and --republish-destination go together.")
    if source:
        headers_only = bool(given.get("republish_headers"))
        config["republish"] = {"src": source, "dest": destination, "headers_only": headers_only}
    if given.get("no_transform"):
        config.pop("subject_transform", None)
    if given.get("no_republish"):
        config.pop("republish", None)
