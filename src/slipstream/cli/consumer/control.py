"""`consumer rm`, `pause`, `resume`, `reset` and `unpin`."""

from __future__ import annotations

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.consumer.flags import moment
from slipstream.cli.human import format_duration, format_number, format_time, to_rfc3339
from slipstream.cli.jetstream import choose_consumer, choose_stream
from slipstream.cli.prompts import ask, ask_choice, confirm_or_stop
from slipstream.cli.render import say
from slipstream.cli.types import force_flag

__all__ = ["pause", "reset", "resume", "rm", "unpin"]

_stream_argument = click.argument("stream", metavar="[STREAM]", required=False)
_consumer_argument = click.argument("name", metavar="[CONSUMER]", required=False)


def _chosen(session: Session, stream: str | None, name: str | None) -> tuple[str, str]:
    stream = choose_stream(session, stream, internal=session.show_all)
    return stream, choose_consumer(session, stream, name)


@click.command(cls=Command)
@_stream_argument
@_consumer_argument
@force_flag
@click.pass_obj
def rm(session: Session, stream: str | None, name: str | None, force: bool) -> None:
    """Delete CONSUMER; the messages stay in the stream."""
    stream, name = _chosen(session, stream, name)
    link = session.link()
    if not force:
        link.api(f"CONSUMER.INFO.{stream}.{name}")  # one that is not there is not worth a question
    confirm_or_stop(f"Really delete Consumer {stream} > {name}", force=force)
    link.api(f"CONSUMER.DELETE.{stream}.{name}")
    say(f"Consumer {stream} > {name} was deleted")


@click.command(cls=Command)
@_stream_argument
@_consumer_argument
@click.argument("until", metavar="[TIME]", required=False)
@force_flag
@click.pass_obj
def pause(session: Session, stream: str | None, name: str | None, until: str | None, force: bool) -> None:
    """Stop the deliveries of CONSUMER until TIME: `2026-01-31 12:00:00`, or a duration such as 1h."""
    stream, name = _chosen(session, stream, name)
    try:
        end = moment(until) if until else ask("Pause until (time or duration)", default="1h", read=moment, flag="TIME")
    except ValueError as error:
        raise Failure(f"{until!r} is neither a time nor a duration") from error
    shown = format_time(to_rfc3339(end))
    confirm_or_stop(f"Really pause Consumer {stream} > {name} until {shown}", force=force)
    answer = session.link().api(f"CONSUMER.PAUSE.{stream}.{name}", {"pause_until": to_rfc3339(end)})
    if not answer.get("paused"):
        raise Failure("the consumer is not paused; perhaps the time has passed")
    left = format_duration(answer.get("pause_remaining", 0))
    say(f"Paused {stream} > {name} until {format_time(answer['pause_until'])} ({left})")


@click.command(cls=Command)
@_stream_argument
@_consumer_argument
@force_flag
@click.pass_obj
def resume(session: Session, stream: str | None, name: str | None, force: bool) -> None:
    """Start the deliveries of a paused CONSUMER again."""
    stream, name = _chosen(session, stream, name)
    link = session.link()
    if not link.api(f"CONSUMER.INFO.{stream}.{name}").get("paused"):
        raise Failure(f"consumer {stream} > {name} is not paused")
    confirm_or_stop(f"Really resume Consumer {stream} > {name}", force=force)
    link.api(f"CONSUMER.PAUSE.{stream}.{name}", {})
    say(f"Consumer {stream} > {name} was resumed")


@click.command(cls=Command)
@_stream_argument
@_consumer_argument
@click.option("--sequence", type=click.IntRange(min=1), help="Go back, or on, to this sequence of the stream.")
@force_flag
@click.pass_obj
def reset(session: Session, stream: str | None, name: str | None, sequence: int | None, force: bool) -> None:
    """Let CONSUMER deliver again what was not acknowledged, or everything from --sequence on."""
    stream, name = _chosen(session, stream, name)
    link = session.link()
    link.api(f"CONSUMER.INFO.{stream}.{name}")  # servers do not answer for one that is not there
    place = f"sequence {format_number(sequence)}" if sequence else "its acknowledgment floor"
    confirm_or_stop(f"Really reset Consumer {stream} > {name} to {place}", force=force)
    answer = link.api(f"CONSUMER.RESET.{stream}.{name}", {"seq": sequence} if sequence else None)
    say(f"Consumer {stream} > {name} was reset to sequence {format_number(answer['reset_seq'])}")


@click.command(cls=Command)
@_stream_argument
@_consumer_argument
@click.argument("group", required=False)
@force_flag
@click.pass_obj
def unpin(session: Session, stream: str | None, name: str | None, group: str | None, force: bool) -> None:
    """Unpin the client that holds the priority group GROUP, so that another one gets its turn."""
    stream, name = _chosen(session, stream, name)
    link = session.link()
    found = link.api(f"CONSUMER.INFO.{stream}.{name}")
    if found["config"].get("priority_policy") != "pinned_client":
        raise Failure("the consumer does not pin clients")
    pinned = {
        each["group"]: each["pinned_client_id"]
        for each in found.get("priority_groups") or []
        if each.get("pinned_client_id")
    }
    if not pinned:
        raise Failure("no priority group has a pinned client")
    group = group or ask_choice("Select a Group", sorted(pinned), flag="GROUP")
    if group not in pinned:
        raise Failure(f"group {group!r} has no pinned client")
    confirm_or_stop(f"Really unpin client from group {stream} > {name} > {group}", force=force)
    link.api(f"CONSUMER.UNPIN.{stream}.{name}", {"group": group})
    say(f"Unpinned client {pinned[group]} from Priority Group {stream} > {name} > {group}")
