"""Rights of users on the command line: for one user, or for all whom a scoped signing key signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from slipstream.cli.auth.tree import Fields
from slipstream.cli.types import DURATION, SIZE
from slipstream.units import MINUTE_NS

__all__ = ["NO_RIGHTS_GIVEN", "apply_rights", "rights_flags", "rights_given"]

_F = TypeVar("_F", bound=Callable[..., Any])

# What `nats` calls the kinds of connections, and what tokens call them.
_CONNECTIONS: Final = {
    "nats": "STANDARD",
    "ws": "WEBSOCKET",
    "leaf": "LEAFNODE",
    "wsleaf": "LEAFNODE_WS",
    "mqtt": "MQTT",
    "mqttws": "MQTT_WS",
    "in-process": "IN_PROCESS",
}
_LISTS: Final = (
    ("pub_allow", ("pub", "allow"), "Subjects to publish to."),
    ("pub_deny", ("pub", "deny"), "Subjects not to publish to."),
    ("sub_allow", ("sub", "allow"), "Subjects, or `subject queue`, to subscribe to."),
    ("sub_deny", ("sub", "deny"), "Subjects, or `subject queue`, not to subscribe to."),
)
_RESPONSE_TTL_NS: Final = 2 * MINUTE_NS  # as in a server's configuration


def rights_flags(command: _F) -> _F:
    """The flags; what is not given is None or empty."""
    options: list[Callable[[_F], _F]] = [
        click.option(f"--{flag.replace('_', '-')}", metavar="SUBJECT", multiple=True, help=text)
        for flag, _path, text in _LISTS
    ]
    options += [
        click.option("--responses", type=click.INT, metavar="N", help="Answers to a request that may be published."),
        click.option("--response-ttl", type=DURATION, metavar="DURATION", help="Time for them; 2m by default."),
        click.option("--bearer/--no-bearer", default=None, help="Let the token in without a signature."),
        click.option("--subscriptions", type=click.INT, metavar="N", help="Subscriptions. -1: no limit."),
        click.option("--payload", type=SIZE, metavar="BYTES", help="Bytes of a message. -1: no limit."),
        click.option("--data", type=SIZE, metavar="BYTES", help="Bytes of all messages. -1: no limit."),
        click.option(
            "--connection", type=click.Choice(sorted(_CONNECTIONS)), multiple=True, help="Kinds of connections."
        ),
        click.option("--source", metavar="CIDR", multiple=True, help="Networks to connect from."),
        click.option("--times", metavar="START-END", multiple=True, help="Times of day, as 08:00:00-18:00:00."),
        click.option("--locale", metavar="ZONE", help="Time zone of these times."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def rights_given(given: dict[str, Any]) -> bool:
    """Whether any right or limit was given."""
    return any(given.get(name) not in (None, ()) for name in NO_RIGHTS_GIVEN)


NO_RIGHTS_GIVEN: Final[dict[str, Any]] = {
    **{flag: () for flag, _path, _text in _LISTS},
    **dict.fromkeys(("responses", "response_ttl", "bearer", "subscriptions", "payload", "data", "locale")),
    **dict.fromkeys(("connection", "source", "times"), ()),
}


def apply_rights(rights: Fields, given: dict[str, Any]) -> None:
    """Put what was given into rights; the rest stays. A list that is one empty text takes the present one away."""
    for flag, (side, verb), _text in _LISTS:
        _set_list(rights.setdefault(side, {}), verb, list(given[flag]))
    for flag, field in (("subscriptions", "subs"), ("payload", "payload"), ("data", "data")):
        if given[flag] is not None:
            rights[field] = given[flag]
    _set_list(rights, "allowed_connection_types", [_CONNECTIONS[word] for word in given["connection"]])
    _set_list(rights, "src", list(given["source"]))
    if given["times"]:
        windows = [] if given["times"] == ("",) else [_window(text) for text in given["times"]]
        _set_or_drop(rights, "times", windows)
    if given["locale"] is not None:
        _set_or_drop(rights, "times_location", given["locale"])
    if given["bearer"] is not None:
        _set_or_drop(rights, "bearer_token", given["bearer"])
    if given["responses"] is not None or given["response_ttl"] is not None:
        present = rights.get("resp") or {}
        rights["resp"] = {
            "max": given["responses"] if given["responses"] is not None else present.get("max", 1),
            "ttl": given["response_ttl"] if given["response_ttl"] is not None else present.get("ttl", _RESPONSE_TTL_NS),
        }
        if given["responses"] == 0:
            del rights["resp"]


def _window(text: str) -> Fields:
    start, dash, end = text.partition("-")
    if not dash:
        raise click.UsageError(f"{text!r} is not START-END, as 08:00:00-18:00:00.")
    return {"start": start.strip(), "end": end.strip()}


def _set_list(fields: Fields, name: str, values: list[str]) -> None:
    if values:
        _set_or_drop(fields, name, [] if values == [""] else values)


def _set_or_drop(fields: Fields, name: str, value: object) -> None:
    if value:
        fields[name] = value
    else:
        fields.pop(name, None)
