"""Health checks that look at contents: a stored message, the answer of a service, a file of credentials."""

from __future__ import annotations

import re
import time
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.human import parse_timestamp
from slipstream.cli.link import ClientLink
from slipstream.cli.server.verdict import Verdict, judged, judged_alone
from slipstream.cli.types import DURATION
from slipstream.units import SECOND_NS

__all__ = ["credential", "message", "request"]

_TOKEN: Final = re.compile(r"-----BEGIN NATS USER JWT-----\s*(\S+)\s*-+END NATS USER JWT-+")


@click.command(cls=Command)
@click.option("--stream", "stream_name", required=True, help="The stream.")
@click.option("--subject", default=">", help="The newest message on this subject.")
@click.option("--age-warn", type=DURATION, default=0, help="It is older than this.")
@click.option("--age-critical", type=DURATION, default=0, help="It is older than this.")
@click.option("--content", metavar="REGEX", default=".", help="What its payload has to match.")
@click.option("--body-timestamp", is_flag=True, help="Its payload is its time, in seconds since 1970.")
@click.pass_obj
def message(
    session: Session,
    stream_name: str,
    subject: str,
    age_warn: int,
    age_critical: int,
    content: str,
    body_timestamp: bool,
) -> None:
    """Check the newest message on a subject of a stream."""
    wanted = _regex(content)

    def examine(link: ClientLink, result: Verdict) -> None:
        found = link.api(f"STREAM.MSG.GET.{stream_name}", {"last_by_subj": subject})["message"]
        payload = b64decode(found.get("data", ""))
        if body_timestamp:
            try:
                moment = datetime.fromtimestamp(int(payload), UTC)
            except (ValueError, OverflowError, OSError):
                raise Failure(f"the payload is no time in seconds: {payload[:32]!r}") from None
        else:
            moment = parse_timestamp(found["time"])
        age_ns = max(int((datetime.now(UTC) - moment).total_seconds() * SECOND_NS), 0)
        result.above_ns("age", age_ns, age_warn, age_critical)
        result.figure("size", len(payload), "B")
        if not wanted.search(payload):
            result.say(2, f"does not match regex: {content}")
        result.say(0, f"Valid message on {stream_name} > {subject}")

    judged(session, "message", "Stream Message", examine)


@click.command(cls=Command)
@click.option("--subject", required=True, help="Where the request goes.")
@click.option("--payload", default="", help="What it says.")
@click.option("--match-payload", metavar="REGEX", default="", help="What the answer has to match.")
@click.option("--response-warn", type=DURATION, default=0, help="The answer takes longer than this.")
@click.option("--response-critical", type=DURATION, default=0, help="The answer takes longer than this.")
@click.pass_obj
def request(
    session: Session, subject: str, payload: str, match_payload: str, response_warn: int, response_critical: int
) -> None:
    """Check that a service answers."""
    wanted = _regex(match_payload)

    def examine(link: ClientLink, result: Verdict) -> None:
        began_ns = time.monotonic_ns()
        answer = link.request(subject, payload.encode())
        result.above_ns("time", time.monotonic_ns() - began_ns, response_warn, response_critical)
        if not wanted.search(answer.payload):
            result.say(2, f"response does not match regex: {match_payload}")
        result.say(0, "Valid response")

    judged(session, "request", subject, examine)


@click.command(cls=Command)
@click.option("--credential", "path", required=True, help="The file.")
@click.option("--validity-warn", type=DURATION, default=0, help="It is valid for less than this.")
@click.option("--validity-critical", type=DURATION, default=0, help="It is valid for less than this.")
@click.option("--require-expiry/--no-require-expiry", default=True, help="It has to expire.")
def credential(path: str, validity_warn: int, validity_critical: int, require_expiry: bool) -> None:
    """Check a file of credentials; no server is asked."""

    def examine(result: Verdict) -> None:
        from slipstream.auth.jwt.token import InvalidToken, decode_user

        try:
            token = _TOKEN.search(Path(path).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"credential not accessible: {error}") from error
        if token is None:
            raise Failure("the file has no user token")
        try:
            claims = decode_user(token.group(1))
        except InvalidToken as error:
            raise Failure(f"the user token is not valid: {error}") from error
        left_ns = claims.exp * SECOND_NS - time.time_ns() if claims.exp else 0
        if not claims.exp:
            result.say(2 if require_expiry else 0, "never expires")
        elif left_ns <= 0:
            result.say(2, "expired")
        else:
            left, warn, critical = (value / SECOND_NS for value in (left_ns, validity_warn, validity_critical))
            result.below("validity", left, warn, critical, "s")
            result.say(0, f"expires in {left:.0f}s")

    judged_alone("credential", "Credential", examine)


def _regex(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise click.UsageError(f"{text!r} is no regular expression: {error}") from error
