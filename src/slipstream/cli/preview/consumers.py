"""Observables, which are consumers today."""

from __future__ import annotations

import json

import click

from slipstream.cli.connection import Command, Session
from slipstream.cli.consumer.add import save_consumer
from slipstream.cli.consumer.messages import pull_one
from slipstream.cli.human import visible
from slipstream.cli.jetstream import choose_consumer, choose_stream
from slipstream.cli.link import Reply
from slipstream.cli.preview import asking
from slipstream.cli.prompts import can_ask, confirm_or_stop
from slipstream.cli.pulling import acknowledge
from slipstream.cli.render import print_json
from slipstream.cli.types import force_flag, json_flag

__all__ = ["add_obs", "info_obs", "ls_obs", "next_", "rm_obs"]


@click.command("add-obs", cls=Command)
@click.pass_obj
def add_obs(session: Session) -> None:
    """Add an observable: asks for everything about it."""
    link = session.link()
    asking.begin()
    stream = choose_stream(session, asking.text("Message Set Name", needed=True))
    name = asking.text("Durable Name")
    config: Reply = {"durable_name": name, "name": name} if name else {}
    push = asking.one_of("Push or Pull", ["push", "pull"]) == "push"
    if push:
        config["deliver_subject"] = asking.text("Delivery Subject", needed=True)
    config["deliver_policy"] = "all" if asking.yes("Deliver All? (Y|n)") else "new"
    config["ack_policy"] = "explicit"
    if push:
        config["ack_policy"] = asking.one_of("AckPolicy (None|all|explicit)", ["none", "all", "explicit"], "none")
    config["replay_policy"] = asking.one_of("Replay Policy (Instant|original)", ["instant", "original"], "instant")
    save_consumer(link, stream, config, action="create")
    asking.say_ok()


@click.command("ls-obs", cls=Command)
@click.argument("stream", metavar="MSET")
@json_flag
@click.pass_obj
def ls_obs(session: Session, stream: str, as_json: bool) -> None:
    """List the observables of the message set MSET."""
    stream = choose_stream(session, stream)
    names = sorted(session.link().api_pages(f"CONSUMER.NAMES.{stream}", "consumers"))
    if as_json:
        print_json(names)
        return
    click.echo()
    for number, name in enumerate(names, 1):
        click.echo(f"{number}) {name}")
    click.echo()


@click.command("rm-obs", cls=Command)
@click.argument("stream", metavar="MSET")
@click.argument("name", metavar="OBS")
@force_flag
@click.pass_obj
def rm_obs(session: Session, stream: str, name: str, force: bool) -> None:
    """Delete the observable OBS of the message set MSET."""
    stream = choose_stream(session, stream)
    name = choose_consumer(session, stream, name)
    confirm_or_stop(f"Really delete Consumer {stream} > {name}", force=force)
    session.link().api(f"CONSUMER.DELETE.{stream}.{name}")
    asking.say_ok()


@click.command("info-obs", cls=Command)
@click.argument("stream", metavar="MSET")
@click.argument("name", metavar="OBS")
@click.pass_obj
def info_obs(session: Session, stream: str, name: str) -> None:
    """Show the observable OBS of the message set MSET.

    The preview listed the messages that wait for their acknowledgement; servers of today only count them.
    """
    stream = choose_stream(session, stream)
    found = session.link().api(f"CONSUMER.INFO.{stream}.{choose_consumer(session, stream, name)}")
    # The preview counted what comes next, not what came last.
    delivered, floor = found["delivered"], found["ack_floor"]
    shown = {
        "Delivered": {"ObsSeq": delivered["consumer_seq"] + 1, "SetSeq": delivered["stream_seq"] + 1},
        "AckFloor": {"ObsSeq": floor["consumer_seq"], "SetSeq": floor["stream_seq"]},
        "Pending": found["num_ack_pending"] or None,
        "Redelivery": found["num_redelivered"] or None,
    }
    click.echo(f"Received response of {json.dumps(shown, indent=2)}")


@click.command("next", cls=Command)
@click.argument("stream", metavar="MSET")
@click.argument("name", metavar="OBS")
@click.pass_obj
def next_(session: Session, stream: str, name: str) -> None:
    """Get the next message of the observable OBS, and acknowledge it unless the answer is no."""
    stream = choose_stream(session, stream)
    link = session.link()
    message = pull_one(link, stream, choose_consumer(session, stream, name))
    click.echo(visible(f"Received response of {message.payload.decode(errors='replace')}"))
    click.echo(f"Reply: {message.reply}")
    if not can_ask() or asking.yes("Ack? (Y|n)"):
        acknowledge(link, message)
