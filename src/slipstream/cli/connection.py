"""The connection flags of every command, and the session they lead to.

`Command` and `CommandGroup` are click's with two additions: the connection flags are accepted at every level
(`slipstream -s URL stream ls` and `slipstream stream ls -s URL` are the same; the last one wins), and what a server
or a file refuses ends the program with one clear line and status 1. Wrong usage is status 2.

A command takes the `Session` with `@click.pass_obj` and calls `session.link()` when it needs the server.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from slipstream.errors import SlipstreamError

if TYPE_CHECKING:
    from slipstream.cli.contexts import Contexts
    from slipstream.cli.link import ClientLink
    from slipstream.cli.settings import Settings

__all__ = ["Command", "CommandGroup", "EndlessCommand", "Failure", "LocalCommand", "Session"]


class Failure(click.ClickException):
    """What the user asked for did not happen; the text is for them."""

    def show(self, file: Any = None) -> None:
        """One line on standard error, or a few in a narrow terminal."""
        from slipstream.cli.render import wrapped

        lead = "slipstream: error:"
        text = wrapped(f"{lead} {self.message}", indent=2, err=True)
        colour = False if os.environ.get("NO_COLOR") else None  # the context that knows is gone by now
        click.echo(f"{click.style(lead, fg='red')}{text.removeprefix(lead)}", err=True, color=colour)


class Session:
    """One run of the program: the flags that were given, and the connection once it is needed."""

    def __init__(self, *, own_process: bool = False) -> None:
        """Nothing was said yet; whether the process does nothing else."""
        self.flags: dict[str, Any] = {}
        self.own_process = own_process
        self.show_all = False  # streams that something else manages, too
        self._link: ClientLink | None = None

    @cached_property
    def contexts(self) -> Contexts:
        """The user's contexts."""
        from slipstream.cli.contexts import Contexts

        return Contexts()

    @cached_property
    def settings(self) -> Settings:
        """Flags, environment and context combined.

        Raises:
            ContextError: the wanted context is not there.
            Failure: a value cannot be used.
        """
        from slipstream.cli.settings import resolve

        name = self.flags.get("context") or os.environ.get("NATS_CONTEXT") or self.contexts.selected()
        if self.flags.get("no_context"):
            name = ""
        try:
            return resolve(self.flags, os.environ, self.contexts.load(name) if name else {}, name)
        except ValueError as error:
            raise Failure(str(error)) from error

    def link(self) -> ClientLink:
        """The connection, made when first asked for and closed when the command ends."""
        if self._link is None:
            self._link = self.new_link()
            click.get_current_context().call_on_close(self.close)
        return self._link

    def new_link(self) -> ClientLink:
        """A further connection, which the caller closes."""
        from slipstream.cli.link import ClientLink

        return ClientLink(self.settings)

    def close(self) -> None:
        """Close the connection if there is one."""
        if self._link is not None:
            self._link.close()
            self._link = None


class _Flag(NamedTuple):
    names: tuple[str, ...]
    help: str
    metavar: str = ""  # empty: a switch
    hidden: bool = False


_FLAGS: Final = (
    _Flag(("-s", "--server"), "Servers, separated by commas. [NATS_URL]", "URL"),
    _Flag(("--user",), "User name, or token. [NATS_USER]", "USER"),
    _Flag(("--password",), "Password. [NATS_PASSWORD]", "PASSWORD"),
    _Flag(("--token",), "Token. [NATS_TOKEN]", "TOKEN"),
    _Flag(("--creds",), "Credentials file. [NATS_CREDS]", "FILE"),
    _Flag(("--nkey",), "File with an nkey seed. [NATS_NKEY]", "FILE"),
    _Flag(("--jwt",), "File with a user JWT. [NATS_JWT]", "FILE"),
    _Flag(("--seed",), "File with the seed for --jwt. [NATS_SEED]", "FILE"),
    _Flag(("--tlscert",), "Certificate of this client. [NATS_CERT]", "FILE"),
    _Flag(("--tlskey",), "Private key of this client. [NATS_KEY]", "FILE"),
    _Flag(("--tlsca",), "Certificates to trust. [NATS_CA]", "FILE"),
    _Flag(("--tlsfirst", "--tls-first"), "TLS before the server's greeting."),
    _Flag(("--timeout",), "Time to wait for answers; 5s by default. [NATS_TIMEOUT]", "DURATION"),
    _Flag(("--js-domain", "--domain"), "JetStream domain.", "DOMAIN"),
    _Flag(("--js-api-prefix",), "Prefix of the JetStream API.", "PREFIX"),
    _Flag(("--js-event-prefix",), "Prefix of JetStream advisories.", "PREFIX", hidden=True),
    _Flag(("--inbox-prefix",), "Prefix of reply subjects.", "PREFIX"),
    _Flag(("--connection-name",), "Name of the connection.", "NAME", hidden=True),
    _Flag(("--colors",), "Colour of tables. [NATS_COLOR]", "SCHEME", hidden=True),
    _Flag(("--context",), "Use a named context. [NATS_CONTEXT]", "NAME"),
    _Flag(("--no-context",), "Ignore the selected context.", hidden=True),
    _Flag(("--trace",), "Show requests to the JetStream API and their answers."),
)


class _Remember:
    """Callback of a connection flag: the value goes into the session, not to the command."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value is None or value is False:
            return
        if self._name == "timeout":
            from slipstream.cli.human import parse_duration

            try:
                value = parse_duration(value)
            except ValueError as error:
                raise click.BadParameter(str(error), ctx, param) from error
        ctx.ensure_object(Session).flags[self._name] = value


def _add_connection_flags(command: click.Command, *, hidden: bool) -> None:
    """Add the flags whose names the command does not use for something else."""
    taken = {name for parameter in command.params for name in parameter.opts}
    for flag in _FLAGS:
        names = [name for name in flag.names if name not in taken]
        if not any(name.startswith("--") for name in names):
            continue
        field = flag.names[-1 if flag.names[0] == "-s" else 0].removeprefix("--").replace("-", "_")
        kind: dict[str, Any] = {"metavar": flag.metavar} if flag.metavar else {"is_flag": True}
        command.params.append(
            click.Option(
                [*names, f"_connection_{field}"],
                help=flag.help,
                hidden=hidden or flag.hidden,
                expose_value=False,
                is_eager=True,
                callback=_Remember(field),
                **kind,
            )
        )


class LocalCommand(click.Command):
    """A command whose help says in words what click says in formulas."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags."""
        flags = (param for param in self.get_params(ctx) if isinstance(param, click.Option))
        records = [record for flag in flags if (record := flag.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl([(_NUMBER.sub("INTEGER", names), _in_words(text)) for names, text in records])


_NUMBER: Final = re.compile(r"\bINTEGER RANGE\b")
_FROM_TO: Final = re.compile(r"([\d.]+)<=x<=([\d.]+)")
_AT_LEAST: Final = re.compile(r"  \[x>=[01]\]|; x>=[01](?=\])")  # that there is nothing below zero goes without saying


def _in_words(text: str) -> str:
    return _FROM_TO.sub(r"\1 to \2", _AT_LEAST.sub("", text))


class Command(LocalCommand):
    """A command that may talk to a server."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Add the connection flags."""
        kwargs.setdefault("epilog", "Connection flags are listed by `slipstream --help`; they may stand anywhere.")
        super().__init__(*args, **kwargs)
        _add_connection_flags(self, hidden=True)

    def invoke(self, ctx: click.Context) -> Any:
        """Run, and turn what the server or a file refuses into one line."""
        try:
            return super().invoke(ctx)
        except SlipstreamError as error:
            raise Failure(str(error)) from error
        except OSError as error:
            if error.filename is None:
                raise  # a closed pipe is click's business
            raise Failure(f"{error.filename}: {error.strerror}") from error


class EndlessCommand(Command):
    """A command that goes on until somebody stops it: Ctrl-C is its proper end, not a failure."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run until stopped."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            return None


class CommandGroup(click.Group):
    """A group of such commands."""

    command_class = Command

    def __init__(self, *args: Any, show_connection_flags: bool = False, **kwargs: Any) -> None:
        """Add the connection flags, shown in help or not."""
        super().__init__(*args, **kwargs)
        _add_connection_flags(self, hidden=not show_connection_flags)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the flags: they are what people look for."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)
