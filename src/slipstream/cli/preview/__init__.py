"""The words of JetStream's technical preview: `jsm add`, `jsm info wc`, `jsm add-obs`, and so on.

They work as `slipstream add`, `slipstream info wc`, `slipstream add-obs`, with the questions and answers of `jsm`. What
was a message set is a stream, what was an observable is a consumer. They are not listed by `slipstream --help`.
"""

from __future__ import annotations

from typing import Final

from slipstream.cli.lazy import Verb

__all__ = ["PREVIEW"]

_STREAMS = "slipstream.cli.preview.streams"
_CONSUMERS = "slipstream.cli.preview.consumers"

PREVIEW: Final = {
    "add": Verb(f"{_STREAMS}:add", "Add a message set.", hidden=True),
    "info": Verb(f"{_STREAMS}:info", "Show the account or a message set.", hidden=True),
    "ls": Verb(f"{_STREAMS}:ls", "List message sets.", hidden=True),
    "rm": Verb(f"{_STREAMS}:rm", "Delete a message set.", hidden=True),
    "purge": Verb(f"{_STREAMS}:purge", "Delete the messages of a message set.", hidden=True),
    "rm-msg": Verb(f"{_STREAMS}:rm_msg", "Erase a message.", hidden=True),
    "add-obs": Verb(f"{_CONSUMERS}:add_obs", "Add an observable.", hidden=True),
    "ls-obs": Verb(f"{_CONSUMERS}:ls_obs", "List observables.", hidden=True),
    "rm-obs": Verb(f"{_CONSUMERS}:rm_obs", "Delete an observable.", hidden=True),
    "info-obs": Verb(f"{_CONSUMERS}:info_obs", "Show an observable.", hidden=True),
    "next": Verb(f"{_CONSUMERS}:next_", "Get the next message of an observable.", hidden=True),
}
