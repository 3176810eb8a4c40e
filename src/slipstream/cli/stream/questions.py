"""The questions of `stream add`: those whose answer no flag gave, in the order of `nats`."""

from __future__ import annotations

from slipstream.cli.connection import Failure
from slipstream.cli.human import format_duration, parse_bytes, parse_duration
from slipstream.cli.link import Reply
from slipstream.cli.prompts import ask, ask_choice, confirm
from slipstream.units import MINUTE_NS

__all__ = ["ask_for_the_rest", "ask_name", "split_subjects", "with_defaults"]

_RETENTION = {"Limits": "limits", "Interest": "interest", "Work Queue": "workqueue"}
_WINDOW_NS = 2 * MINUTE_NS


def split_subjects(text: str) -> list[str]:
    """Subjects separated by commas or blanks.

    Raises:
        ValueError: there is none.
    """
    subjects = text.replace(",", " ").split()
    if not subjects:
        raise ValueError("at least one subject is needed")
    return subjects


def ask_name(name: str | None) -> str:
    """The name of a new stream.

    Raises:
        Failure: the name that was given cannot be one.
    """
    if not name:
        return ask("Stream Name", read=_name, flag="STREAM", help="Letters, digits, - and _; no dots or blanks.")
    try:
        return _name(name)
    except ValueError as error:
        raise Failure(str(error)) from error


def _name(text: str) -> str:
    if not text or any(letter in text for letter in " .*>/\\\t"):
        raise ValueError(f"{text!r} cannot be the name of a stream")
    return text


def ask_for_the_rest(config: Reply) -> None:
    """Ask what the configuration does not say yet."""
    copies = config.get("mirror") or config.get("sources")
    if not config.get("subjects") and not copies:
        config["subjects"] = ask(
            "Subjects",
            read=split_subjects,
            flag="--subjects",
            help="What to store: subjects separated by commas or blanks, with wildcards if you like (--subjects).",
        )
    if "storage" not in config:
        config["storage"] = ask_choice(
            "Storage", ["file", "memory"], default="file", help="Files survive a restart, memory does not (--storage)."
        )
    if "num_replicas" not in config:
        config["num_replicas"] = ask(
            "Replication", default="1", read=_positive, help="Copies of the messages in a cluster (--replicas)."
        )
    if "retention" not in config:
        answer = ask_choice(
            "Retention Policy",
            list(_RETENTION),
            default="Limits",
            help="Messages stay until a limit is reached (Limits), while consumers want them (Interest), or until "
            "one consumer has acknowledged them (Work Queue) (--retention).",
        )
        config["retention"] = _RETENTION[answer]
    if "discard" not in config:
        answer = ask_choice(
            "Discard Policy",
            ["New", "Old"],
            default="Old",
            help="At a limit, refuse new messages or delete old ones (--discard).",
        )
        config["discard"] = answer.lower()
    _ask_limits(config)
    if "allow_rollup_hdrs" not in config:
        config["allow_rollup_hdrs"] = confirm(
            "Allow message Roll-ups",
            default=False,
            help="Let a message with the header Nats-Rollup replace all before it (--allow-rollup).",
        )
    if "deny_delete" not in config:
        config["deny_delete"] = not confirm(
            "Allow message deletion", default=True, help="Let single messages be deleted (--deny-delete)."
        )
    if "deny_purge" not in config:
        config["deny_purge"] = not confirm(
            "Allow purging subjects or the entire stream",
            default=True,
            help="Let many messages be deleted at once (--deny-purge).",
        )


def _ask_limits(config: Reply) -> None:
    if "max_msgs" not in config:
        config["max_msgs"] = ask(
            "Stream Messages Limit", default="-1", read=_limit, help="Most messages, -1 for any number (--max-msgs)."
        )
    if "max_msgs_per_subject" not in config and config.get("subjects"):
        config["max_msgs_per_subject"] = ask(
            "Per Subject Messages Limit",
            default="-1",
            read=_limit,
            help="Most messages of each subject, -1 for any number (--max-msgs-per-subject).",
        )
    if "max_bytes" not in config:
        config["max_bytes"] = ask(
            "Total Stream Size", default="-1", read=_size, help="Most bytes, as 512MB; -1 for any (--max-bytes)."
        )
    if "max_age" not in config:
        config["max_age"] = ask(
            "Message TTL",
            default="-1",
            read=_age,
            help="Longest life of a message, as 12h, 7d or 1y; -1 for ever (--max-age).",
        )
    if "max_msg_size" not in config:
        config["max_msg_size"] = ask(
            "Max Message Size", default="-1", read=_size, help="Largest message, as 64KB; -1 for any (--max-msg-size)."
        )
    if "duplicate_window" not in config and not config.get("mirror"):
        config["duplicate_window"] = ask(
            "Duplicate tracking time window",
            default=format_duration(_window_ns(config)),
            read=_age,
            help="A message id that comes again within this time is not stored twice (--dupe-window).",
        )


def with_defaults(config: Reply) -> Reply:
    """A configuration with the defaults of the questions."""
    plain = {
        "storage": "file",
        "num_replicas": 1,
        "retention": "limits",
        "discard": "old",
        "max_msgs": -1,
        "max_msgs_per_subject": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msg_size": -1,
    }
    if not config.get("mirror"):
        plain["duplicate_window"] = _window_ns(config)
    return {**plain, **config}


def _window_ns(config: Reply) -> int:
    age_ns = int(config.get("max_age", 0))
    return min(age_ns, _WINDOW_NS) if age_ns > 0 else _WINDOW_NS


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{text!r} is not a number above 0")
    return int(text)


def _limit(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    return number if number > 0 else -1


def _size(text: str) -> int:
    return parse_bytes(text) or -1


def _age(text: str) -> int:
    return max(parse_duration(text), 0)
