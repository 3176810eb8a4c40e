"""Groups of commands that are imported when they are called, with aliases, sections and suggestions.

A group is a table of `Verb` rows. Help is printed from the rows alone, so that `--help` imports nothing.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import click

from slipstream.cli.connection import CommandGroup

__all__ = ["LazyGroup", "RootGroup", "Verb", "readable_usage"]


class Verb(NamedTuple):
    """Where a command is and what help says of it."""

    where: str  # `module:attribute`
    help: str  # one line
    aliases: tuple[str, ...] = ()
    section: str = "Commands"
    hidden: bool = False


class LazyGroup(CommandGroup):
    """A group whose commands live in modules of their own."""

    def __init__(self, *args: Any, entries: Mapping[str, Verb], **kwargs: Any) -> None:
        """Take the table; everything else is click's."""
        super().__init__(*args, **kwargs)
        self.entries = entries
        self._names = {alias: name for name, entry in entries.items() for alias in (name, *entry.aliases)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, without aliases and hidden ones."""
        return [name for name, entry in self.entries.items() if not entry.hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command by its name or an alias."""
        name = self._names.get(cmd_name)
        if name is None:
            return None
        module, _, attribute = self.entries[name].where.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the rows of each section, aliases behind the name, all in the same two columns."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            if not entry.hidden:
                names = ", ".join((name, *entry.aliases[:2]))
                sections.setdefault(entry.section, []).append((names, entry.help))
        width = max((len(names) for rows in sections.values() for names, _ in rows), default=0)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl([(names.ljust(width), text) for names, text in rows])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one might be meant."""
        name = args[0]
        if name not in self._names and not name.startswith("-"):
            from slipstream.nearness import near

            nearest = [self._names[found] for found in near(name, self._names)[:1]]
            raise click.UsageError(f"No such command {name!r}.{_hint(nearest)}", ctx)
        return super().resolve_command(ctx, args)


class RootGroup(LazyGroup):
    """The group of all commands: sees every wrong usage, and breaks what is said of it between words."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the flags in front of the first command."""
        with readable_usage():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Read the rest, and run."""
        with readable_usage():
            return super().invoke(ctx)


@contextmanager
def readable_usage() -> Iterator[None]:
    """Wrong usage in words for people, broken between them."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # its text is a page of help
    except click.UsageError as error:
        from slipstream.cli.render import wrapped

        lead = "Error: "
        said = _unknown_flag(error) if isinstance(error, click.NoSuchOption) else _in_words(error.format_message())
        text = wrapped(f"{lead}{said}", indent=2, err=True)
        raise click.UsageError(text.removeprefix(lead), error.ctx) from error


def _unknown_flag(error: click.NoSuchOption) -> str:
    """The same with flags that are near enough; click offers whatever has a few letters in common."""
    from slipstream.nearness import near

    flags = error.ctx.command.get_params(error.ctx) if error.ctx else []
    names = (name for flag in flags for name in (*flag.opts, *flag.secondary_opts) if name.startswith("--"))
    return f"No such option {error.option_name!r}.{_hint(near(error.option_name, names))}"


def _hint(names: list[str]) -> str:
    return f" Did you mean {' or '.join(map(repr, names))}?" if names else ""


_IN_WORDS: Final = (
    (re.compile(r"(?<=value for ')\[(\w+)\](?=')"), r"\1"),
    (re.compile(r"is not a valid integer(?: range)?\b"), "is not a whole number"),
    (re.compile(r"is not a valid float(?: range)?\b"), "is not a number"),
    (re.compile(r"is not in the range ([-\d.]+)<=x<=([-\d.]+\d)"), r"is not between \1 and \2"),
    (re.compile(r"is not in the range x>=([-\d.]*\d)"), r"is less than \1"),
)


def _in_words(text: str) -> str:
    """What click says in formulas."""
    for formula, words in _IN_WORDS:
        text = formula.sub(words, text)
    return text
