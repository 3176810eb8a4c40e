"""`consumer why`: why a consumer delivers nothing, as its server sees it."""

from __future__ import annotations

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.jetstream import choose_consumer, choose_stream
from slipstream.cli.render import print_json, say
from slipstream.cli.types import json_flag
from slipstream.client.wire import ClientTimeout

__all__ = ["why"]


@click.command(cls=Command)
@click.argument("stream", metavar="[STREAM]", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@json_flag
@click.pass_obj
def why(session: Session, stream: str | None, name: str | None, as_json: bool) -> None:
    """Say why CONSUMER delivers nothing at the moment, one sentence for each cause.

    Stuck: somebody has to act. Waiting: it ends by itself. Idle: there is nothing to deliver.
    """
    stream = choose_stream(session, stream, internal=session.show_all)
    name = choose_consumer(session, stream, name)
    try:
        found = session.link().api(f"CONSUMER.WHY.{stream}.{name}")
    except ClientTimeout:
        raise Failure("the server did not answer; nats-server cannot say why") from None
    causes = found["causes"]
    if as_json:
        print_json({key: value for key, value in found.items() if key != "type"})
    elif not causes:
        say(f"Nothing keeps Consumer {stream} > {name} from delivering")
    else:
        for cause in causes:
            say(f"{cause['kind']:>7}: {cause['text']}", indent=9)
