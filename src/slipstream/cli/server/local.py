"""What needs no running server: to run one, to check its configuration, to hash a password."""

from __future__ import annotations

import os
import secrets
import string
import sys
from typing import Final

import click

from slipstream.cli.connection import Command, CommandGroup, Failure, LocalCommand, Session
from slipstream.cli.prompts import can_ask, confirm_or_stop
from slipstream.cli.render import say, wrapped
from slipstream.cli.types import force_flag

__all__ = ["config", "passwd", "run"]

_LENGTH_MIN: Final = 22  # shorter passwords can be guessed from their hash
_GENERATED: Final = 32


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def run(flags: tuple[str, ...]) -> None:
    """Run a server; takes the flags of nats-server (`slipstream server run --help` lists them)."""
    if set(flags) & {"-h", "-help", "--help"}:
        from slipstream.server.process.flags import help_text

        click.echo(help_text("slipstream server run"), nl=False)
        return
    from slipstream.server.main import main

    sys.exit(main(list(flags)))


@click.group(cls=CommandGroup)
def config() -> None:
    """Work with configuration files."""


@config.command(cls=Command, short_help="Have a server read its configuration file again.")
@click.argument("name", default="")
@force_flag
@click.pass_obj
def reload(session: Session, name: str, force: bool) -> None:
    """Have the server NAME, by default the connected one, read its configuration file again."""
    from slipstream.cli.system import ask_server, one_server

    link = session.link()
    found = one_server(link, "VARZ", name)["data"]
    confirm_or_stop(f"Really reload the configuration of server {found['server_name']}", force=force)
    ask_server(link, found["server_id"], "RELOAD")
    say(f"Server {found['server_name']} was told to reload its configuration")


@config.command(cls=LocalCommand, short_help="Check a configuration file.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def check(file: str) -> None:
    """Check the configuration FILE as the server would at its start."""
    from slipstream.server.process.configure import Exit, configure

    verdict = configure(["-c", file, "-t"], os.environ)
    assert isinstance(verdict, Exit)  # with -t nothing is started
    said = (verdict.stdout + verdict.stderr).strip().removeprefix("nats-server: ")
    if verdict.code:
        raise Failure(said if file in said else f"{file}: {said}")
    click.echo(wrapped(said, err=True), err=True)


@click.command(cls=LocalCommand)
@click.option("--pass", "-p", "password", default="", help="The password; asked for if not given.")
@click.option("--cost", type=click.IntRange(4, 31), default=11, help="How much work a guess is.")
@click.option("--generate", "-g", is_flag=True, help="Make up a password.")
def passwd(password: str, cost: int, generate: bool) -> None:
    """Hash a password with bcrypt, for `password` in a configuration file."""
    import bcrypt

    if generate:
        letters = string.ascii_letters + string.digits
        password = "".join(secrets.choice(letters) for _ in range(_GENERATED))
        click.echo(password)
    elif not password:
        if not can_ask():
            raise Failure("--pass or --generate is needed: there is no terminal to ask for a password")
        password = click.prompt("Enter password", hide_input=True, confirmation_prompt=True)
    if len(password) < _LENGTH_MIN:
        raise Failure(f"the password is too short: at least {_LENGTH_MIN} characters are needed")
    if len(password.encode()) > 72:
        raise Failure("bcrypt takes at most 72 bytes")
    click.echo(bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost, b"2a")).decode())
