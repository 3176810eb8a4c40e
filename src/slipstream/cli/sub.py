"""`slipstream sub`: show the messages of subjects, as they are published or as a stream has stored them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import to_rfc3339
from slipstream.cli.link import ApiRefusal, ClientLink, Reply
from slipstream.cli.listening import listen
from slipstream.cli.pulling import Feed, acknowledge, filter_fields
from slipstream.cli.render import note
from slipstream.cli.showing import Shower
from slipstream.cli.types import DURATION, json_flag, list_option
from slipstream.client.wire import Message
from slipstream.units import MICROSECOND_NS

__all__ = ["sub"]


@click.command(cls=Command)
@click.argument("subjects", nargs=-1)
@click.option("--queue", default="", help="Share the messages with the members of a queue group.")
@click.option("--inbox", "-i", is_flag=True, help="Listen on a new inbox.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="Stop after this many messages.")
@click.option("--wait", type=DURATION, default=0, help="Stop after this long without a message.")
@click.option("--raw", "-r", is_flag=True, help="Print only the bodies.")
@click.option("--headers-only", is_flag=True, help="Print headers, no bodies.")
@click.option("--subjects-only", is_flag=True, help="Print only the subjects.")
@click.option("--timestamp", "-t", is_flag=True, help="Print the time of each message.")
@click.option("--delta-time", "-d", is_flag=True, help="Print the time since the start.")
@click.option("--translate", metavar="COMMAND", default="", help="Show bodies through a command.")
@click.option("--dump", metavar="DIRECTORY", default="", help="Write a file for each message; - is standard output.")
@click.option("--match-replies", is_flag=True, help="Show requests together with their answers.")
@list_option("--ignore-subject", "-I", "ignored", metavar="SUBJECT", help="Leave out what matches.")
@click.option("--report-subjects", is_flag=True, help="At the end, count messages by subject.")
@click.option("--report-top", default=10, show_default=True, help="Subjects to count with --report-subjects.")
@json_flag
@click.option("--stream", metavar="STREAM", default="", help="Read from a stream.")
@click.option("--durable", metavar="CONSUMER", default="", help="Read as a durable consumer.")
@click.option("--ack/--no-ack", default=None, help="Acknowledge what a durable consumer delivers.")
@click.option("--all", "deliver_all", is_flag=True, help="From the first message in the stream.")
@click.option("--new", is_flag=True, help="Only messages stored from now on.")
@click.option("--last", is_flag=True, help="From the last message in the stream.")
@click.option("--last-per-subject", is_flag=True, help="From the last message of each subject.")
@click.option("--since", type=DURATION, default=0, help="Messages stored in this last time, as 1h.")
@click.option("--start-sequence", type=click.IntRange(min=0), default=0, help="From a sequence on.")
@click.option("--terminate-at-end", "-T", is_flag=True, help="Stop when the whole stream was shown.")
@click.pass_obj
def sub(
    session: Session,
    subjects: tuple[str, ...],
    queue: str,
    inbox: bool,
    count: int,
    wait: int,
    raw: bool,
    headers_only: bool,
    subjects_only: bool,
    timestamp: bool,
    delta_time: bool,
    translate: str,
    dump: str,
    match_replies: bool,
    ignored: list[str],
    report_subjects: bool,
    report_top: int,
    as_json: bool,
    stream: str,
    durable: str,
    ack: bool | None,
    deliver_all: bool,
    new: bool,
    last: bool,
    last_per_subject: bool,
    since: int,
    start_sequence: int,
    terminate_at_end: bool,
) -> None:
    """Subscribe to SUBJECTS and show what comes, until Ctrl-C.

    With --stream, --durable, --all, --last and the like messages come from a stream; a stream is found by its subject.
    """
    policy = _policy(
        deliver_all=deliver_all,
        new=new,
        last=last,
        last_per_subject=last_per_subject,
        since_ns=since,
        start_sequence=start_sequence,
    )
    if terminate_at_end and not policy:
        policy = {"deliver_policy": "all"}
    shower = Shower(
        raw=raw,
        headers_only=headers_only,
        subjects_only=subjects_only,
        timestamp=timestamp,
        delta_time=delta_time,
        translate=translate,
        dump=dump,
        match_replies=match_replies,
        ignored=ignored,
        count_subjects=report_subjects,
        as_json=as_json,
    )
    try:
        if stream or durable or policy:
            source = _from_stream(session, list(subjects), stream, durable, policy, ack, wait, terminate_at_end, count)
        else:
            source = _live(session, list(subjects), queue, inbox, wait, matching=match_replies)
        _run(source, shower, count)
    except KeyboardInterrupt:
        click.echo(err=True)
    shower.finish(report_top if report_subjects else 0)


Received = tuple[Message, Callable[[], None]]  # a message, and what to do when it was shown


def _run(source: Iterator[Received], shower: Shower, count: int) -> None:
    for message, done in source:
        shower.show(message)
        done()
        if count and shower.shown >= count:
            return


def _live(
    session: Session, subjects: list[str], queue: str, inbox: bool, wait_ns: int, *, matching: bool
) -> Iterator[Received]:
    if inbox:
        subjects.append(session.link().client.new_inbox())
    if not subjects:
        raise click.UsageError("Missing argument 'SUBJECTS', or --inbox, or --stream.")
    asked = [*subjects, f"{session.link().client.options.inbox_prefix}.>"] if matching else subjects

    def prepare(link: ClientLink) -> None:
        for subject in asked:
            link.subscribe(subject, queue=queue)

    def ready() -> None:
        note(f"Subscribing on {', '.join(subjects)}{f' in group {queue}' if queue else ''}")

    for _, message in listen(session, prepare, ready=ready, wait_ns=wait_ns):
        yield message, _nothing


def _nothing() -> None:
    """Core messages are not acknowledged."""


def _from_stream(
    session: Session,
    subjects: list[str],
    stream: str,
    durable: str,
    policy: Reply,
    ack: bool | None,
    wait_ns: int,
    to_end: bool,
    count: int,
) -> Iterator[Received]:
    stream = stream or _stream_of(session.link(), subjects)
    filters = filter_fields(subjects)
    info = _durable(session.link(), stream, durable, {**filters, **policy}) if durable else None
    config = None if info else {"deliver_policy": "all", **filters, **policy}
    acks = bool(info and info["config"].get("ack_policy") != "none") if ack is None else ack
    with Feed(session, stream, info=info, config=config, wait_ns=wait_ns, count=count) as feed:
        note(f"Subscribing to Stream {stream}{f' as {durable}' if durable else ''}{_words(policy)}")
        if to_end and not feed.pending:
            return
        for link, message in feed:
            yield message, partial(acknowledge, link, message) if acks else _nothing
            if to_end and not feed.pending:
                return


def _words(policy: Reply) -> str:
    kind = policy.get("deliver_policy", "")
    known = {
        "all": " from the first message",
        "new": " for new messages",
        "last": " from the last message",
        "last_per_subject": " for the last message of each subject",
        "by_start_sequence": f" from sequence {policy.get('opt_start_seq')}",
        "by_start_time": f" since {policy.get('opt_start_time')}",
    }
    return known.get(kind, "")


def _stream_of(link: ClientLink, subjects: list[str]) -> str:
    if not subjects:
        raise click.UsageError("Missing argument 'SUBJECTS', or --stream.")
    names = link.api("STREAM.NAMES", {"subject": subjects[0]}).get("streams") or []
    if len(names) != 1:
        many = f"{len(names)} streams have" if names else "no stream has"
        raise Failure(f"{many} messages for {subjects[0]!r}: name one with --stream")
    return str(names[0])


def _durable(link: ClientLink, stream: str, name: str, config: Reply) -> Reply:
    """A durable consumer, made if it is not there."""
    try:
        return link.api(f"CONSUMER.INFO.{stream}.{name}")
    except ApiRefusal as error:
        if error.code != 404 or "stream" in error.description:
            raise
    wanted = {"durable_name": name, "ack_policy": "explicit", "deliver_policy": "all", **config}
    return link.api(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", {"stream_name": stream, "config": wanted})


def _policy(
    *, deliver_all: bool, new: bool, last: bool, last_per_subject: bool, since_ns: int, start_sequence: int
) -> Reply:
    """The fields of a consumer that say where to begin; none if nothing was said."""
    chosen: list[Reply] = []
    if deliver_all:
        chosen.append({"deliver_policy": "all"})
    if new:
        chosen.append({"deliver_policy": "new"})
    if last:
        chosen.append({"deliver_policy": "last"})
    if last_per_subject:
        chosen.append({"deliver_policy": "last_per_subject"})
    if since_ns:
        begin = datetime.now().astimezone() - timedelta(microseconds=since_ns / MICROSECOND_NS)
        chosen.append({"deliver_policy": "by_start_time", "opt_start_time": to_rfc3339(begin)})
    if start_sequence:
        chosen.append({"deliver_policy": "by_start_sequence", "opt_start_seq": start_sequence})
    if len(chosen) > 1:
        raise click.UsageError("Only one of --all, --new, --last, --last-per-subject, --since, --start-sequence.")
    return chosen[0] if chosen else {}
