"""The questions of `consumer add`: those whose answer no flag gave, in the order of `nats`."""

from __future__ import annotations

from slipstream.cli.consumer.flags import backoff_steps, start_fields, with_filter
from slipstream.cli.human import parse_duration
from slipstream.cli.link import Reply
from slipstream.cli.prompts import ask, ask_choice, confirm

__all__ = ["ask_for_the_rest", "ask_name", "with_defaults"]


def ask_name(name: str | None) -> str:
    """The name of a new consumer."""
    return name or ask("Consumer name", read=_name, flag="CONSUMER", help="What clients call it; no dots or blanks.")


def _name(text: str) -> str:
    if not text or any(letter in text for letter in " .*>/\\\t"):
        raise ValueError(f"{text!r} cannot be the name of a consumer")
    return text


def with_defaults(config: Reply) -> Reply:
    """A configuration with the defaults of the questions."""
    push = bool(config.get("deliver_subject"))
    plain: Reply = {"deliver_policy": "all", "ack_policy": "none" if push else "explicit", "replay_policy": "instant"}
    return _consistent({**plain, **config})


def ask_for_the_rest(config: Reply, *, pull: bool) -> Reply:
    """Ask what the configuration does not say yet, and return it complete."""
    if not pull and "deliver_subject" not in config:
        target = ask(
            "Delivery target (empty for Pull Consumers)",
            default="",
            read=str,
            help="A pull consumer delivers what clients ask for; a push consumer sends to this subject (--target).",
        )
        config |= {"deliver_subject": target} if target else {}
    push = bool(config.get("deliver_subject"))
    if push and "deliver_group" not in config:
        group = ask(
            "Delivery Queue Group", default="", read=str, help="Share messages in this group (--deliver-group)."
        )
        config |= {"deliver_group": group} if group else {}
    if "deliver_policy" not in config:
        config |= ask(
            "Start policy (all, new, last, subject, 1h, msg sequence)",
            default="all",
            read=start_fields,
            help="Which messages come first: all there are, new ones, the last, the last of each subject, those of "
            "the last hour, or those from a sequence on (--deliver).",
        )
    if "ack_policy" not in config:
        config["ack_policy"] = ask_choice(
            "Acknowledgment policy",
            ["explicit", "all", "none"],
            default="none" if push else "explicit",
            help="Each message is acknowledged (explicit), one acknowledges all before it (all), or none is (--ack).",
        )
    if "replay_policy" not in config:
        config["replay_policy"] = ask_choice(
            "Replay policy",
            ["instant", "original"],
            default="instant",
            help="As fast as possible, or at the speed they were stored (--replay).",
        )
    if "filter_subject" not in config and "filter_subjects" not in config:
        subjects = ask(
            "Filter Stream by subjects (blank for all)",
            default="",
            read=lambda text: text.replace(",", " ").split(),
            help="Deliver only messages of these subjects (--filter).",
        )
        config = with_filter(config, subjects)
    _ask_limits(config)
    if push:
        _ask_push(config)
    if "headers_only" not in config:
        config["headers_only"] = confirm(
            "Deliver headers only without bodies",
            default=False,
            help="The size of a body is in the header Nats-Msg-Size (--headers-only).",
        )
    if config["ack_policy"] != "none" and "backoff" not in config:
        _ask_backoff(config)
    return _consistent(config)


def _ask_limits(config: Reply) -> None:
    if config["ack_policy"] == "none":
        return
    if "max_deliver" not in config:
        config["max_deliver"] = ask(
            "Maximum Allowed Deliveries",
            default="-1",
            read=_number,
            help="After this many tries a message is given up; -1 for never (--max-deliver).",
        )
    if "max_ack_pending" not in config:
        config["max_ack_pending"] = ask(
            "Maximum Acknowledgments Pending",
            default="0",
            read=_number,
            help="Pause when this many messages wait for their acknowledgement; 0 for the server's (--max-pending).",
        )


def _ask_push(config: Reply) -> None:
    if "idle_heartbeat" not in config:
        beat_ns = ask(
            "Idle Heartbeat",
            default="0s",
            read=lambda text: max(parse_duration(text), 0),
            help="Send a sign of life when nothing else was sent for this long (--heartbeat).",
        )
        config |= {"idle_heartbeat": beat_ns} if beat_ns else {}
    if "flow_control" not in config:
        config["flow_control"] = confirm(
            "Enable Flow Control", default=False, help="Let receivers slow the server down (--flow-control)."
        )


def _ask_backoff(config: Reply) -> None:
    retry = "Wait longer before each further delivery of a message that is not acknowledged (--backoff)."
    if not confirm("Add a Retry Backoff Policy", default=False, help=retry):
        return
    steps = ask("Number of retry steps", default="10", read=_steps, help="Waits that differ (--backoff-steps).")
    least_ns = ask("Minimum retry time", default="1m", read=parse_duration, help="First wait (--backoff-min).")
    config["backoff"] = ask(
        "Maximum retry time",
        default="20m",
        read=lambda text: backoff_steps(steps, least_ns, parse_duration(text)),
        help="Last wait (--backoff-max).",
    )
    if config.get("max_deliver", -1) == -1:
        config["max_deliver"] = steps + 1  # a server wants more deliveries than waits


def _consistent(config: Reply) -> Reply:
    """Fields that only make sense with others."""
    changed = {key: value for key, value in config.items() if value not in ("", None)}
    if changed.get("ack_policy") == "none":
        changed["max_deliver"] = -1
    last_per_subject = changed.get("deliver_policy") == "last_per_subject"
    if last_per_subject and not (changed.get("filter_subject") or changed.get("filter_subjects")):
        changed["filter_subject"] = ">"
    return changed


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _steps(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1000:
        raise ValueError(f"{text!r} is not a number between 1 and 1000")
    return int(text)
