"""`slipstream bench`: load on a server from the command line, with the commands, flags and words of `nats bench`.

    slipstream bench pub SUBJECT --msgs 1000000 --size 128 --clients 4
    slipstream bench service serve SUBJECT
    slipstream bench js pub async SUBJECT --create
    slipstream bench js consume --clients 4
    slipstream bench kv put

The work is done by `slipstream.client.bench`; here are the flags (`flags`), the streams it needs (`target`), the run
(`run`) and the words (`report`). `request` and `reply` are of this program: `reply` ends after --msgs requests.
"""

from __future__ import annotations

import click

from slipstream.cli.bench.groups import BenchGroup
from slipstream.cli.lazy import Verb

__all__ = ["bench"]

_CORE = "slipstream.cli.bench.core"
_PLACE = "slipstream.cli.bench"

VERBS = {
    "pub": Verb(f"{_CORE}:pub", "Publish Core NATS messages."),
    "sub": Verb(f"{_CORE}:sub", "Receive Core NATS messages."),
    "service": Verb(f"{_PLACE}.service:service", "Ask and serve as a micro service."),
    "js": Verb(f"{_PLACE}.js:js", "Publish to streams, consume and get."),
    "kv": Verb(f"{_PLACE}.kv:kv", "Put and get keys."),
    "request": Verb(f"{_PLACE}.service:request", "Send requests, one after the other."),
    "reply": Verb(f"{_CORE}:reply", "Answer so many requests."),
}


@click.group(cls=BenchGroup, entries=VERBS)
def bench() -> None:
    """Measure how many messages a server takes, delivers and answers."""
