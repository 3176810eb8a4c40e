"""Which calls administer something, and what each is called in the audit trail (ADR 65).

What this is not: how they are answered (`routes`), nor where they are written down (`trail`).
"""

from __future__ import annotations

from typing import Final

from slipstream.dataclass import dataclass
from slipstream.jetstream.api.subjects import API_PREFIX

__all__ = ["Action", "action_of"]

# Literal tokens behind `$JS.API.` → the action. Behind them follow the stream, and the consumer if it is about one.
_ACTIONS: Final = {
    "STREAM.CREATE": "stream.create",
    "STREAM.UPDATE": "stream.update",
    "STREAM.DELETE": "stream.delete",
    "STREAM.PURGE": "stream.purge",
    "STREAM.TRUNCATE": "stream.truncate",
    "STREAM.SNAPSHOT": "stream.snapshot",
    "STREAM.RESTORE": "stream.restore",
    "STREAM.MSG.DELETE": "message.delete",
    "STREAM.PEER.REMOVE": "stream.peer_remove",
    "STREAM.PEER.EVACUATE": "stream.peer_evacuate",
    "STREAM.CANCEL_MOVE": "stream.cancel_move",
    "STREAM.LEADER.STEPDOWN": "stream.leader_stepdown",
    "CONSUMER.CREATE": "consumer.create",
    "CONSUMER.DURABLE.CREATE": "consumer.create",
    "CONSUMER.DELETE": "consumer.delete",
    "CONSUMER.PAUSE": "consumer.pause",
    "CONSUMER.RESET": "consumer.reset",
    "CONSUMER.UNPIN": "consumer.unpin",
    "CONSUMER.LEADER.STEPDOWN": "consumer.leader_stepdown",
    "ACCOUNT.PURGE": "account.purge",
    "ACCOUNT.STREAM.MOVE": "stream.move",
    "ACCOUNT.STREAM.CANCEL_MOVE": "stream.cancel_move",
}
_TOKENS_MAX: Final = 3  # literal ones


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody asked for."""

    name: str  # `stream.create`
    stream: str = ""
    consumer: str = ""
    target: str = ""  # what else it is about: an account, a connection


def action_of(subject: str) -> Action | None:
    """The action that a call is; None: it only looks, or moves messages."""
    tokens = subject.removeprefix(API_PREFIX).split(".")
    for count in range(min(len(tokens), _TOKENS_MAX), 1, -1):
        name = _ACTIONS.get(".".join(tokens[:count]))
        if name is None:
            continue
        names = [*tokens[count:], "", ""]
        if name.startswith("account."):
            return Action(name, target=names[0])
        if tokens[0] == "ACCOUNT":  # whose stream it is stands before its name
            return Action(name, names[1], target=names[0])
        return Action(name, names[0], names[1] if name.startswith("consumer.") else "")
    return None
