"""Questions, one at a time, each with a default and a help text that `?` shows.

Questions need a terminal. Without one a question with a default answers itself, and one without is an error that
names the flag to give instead: a script never hangs on a question it cannot see.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from slipstream.cli.connection import Failure
from slipstream.cli.render import wrapped

__all__ = ["ask", "ask_choice", "can_ask", "confirm", "confirm_or_stop", "edited_by_hand"]

T = TypeVar("T")


def can_ask() -> bool:
    """There is somebody to ask."""
    return sys.stdin.isatty()


def ask(
    question: str,
    *,
    default: str | None = None,
    read: Callable[[str], T],
    help: str = "",
    flag: str = "",
) -> T:
    """Ask until the answer can be read.

    Args:
        question: what to ask, without punctuation.
        default: the answer to an empty line; without one an answer has to be given.
        read: makes the answer a value; raises ValueError with the reason when it cannot.
        help: shown for the answer `?`.
        flag: what to give on the command line where nobody can be asked.

    Raises:
        Failure: there is no terminal and no default.
    """
    if not can_ask():
        if default is None:
            raise Failure(f"{flag or question} is needed: there is no terminal to ask for it")
        return read(default)
    suffix = f" [{default}]" if default else ""
    while True:
        click.echo(f"{click.style('?', fg='green')} {click.style(question, bold=True)}{suffix} ", nl=False)
        try:
            answer = input().strip()
        except EOFError:
            raise click.Abort from None
        if answer == "?" and help:
            click.echo(click.style(wrapped(f"  {help}", indent=2), fg="cyan"))
            continue
        if not answer and default is None:
            click.echo("  an answer is needed")
            continue
        try:
            return read(answer or default or "")
        except ValueError as error:
            click.echo(click.style(wrapped(f"  {error}", indent=2), fg="red"))


def ask_choice(
    question: str, choices: Sequence[str], *, default: str | None = None, help: str = "", flag: str = ""
) -> str:
    """Ask for one of some words; their beginning is enough, and the number of a long list."""
    numbered = len(choices) > 5
    if numbered and can_ask():
        for number, choice in enumerate(choices, 1):
            click.echo(f"  {number:>3}) {choice}")
        shown = question
    else:
        shown = f"{question} ({', '.join(choices)})"

    def read(text: str) -> str:
        if text in choices:
            return text
        if numbered and text.isdecimal() and 0 < int(text) <= len(choices):
            return choices[int(text) - 1]
        found = [choice for choice in choices if choice.lower().startswith(text.lower())]
        if len(found) != 1:
            raise ValueError(f"{text!r} is none of {', '.join(choices)}")
        return found[0]

    hint = f"One of these, or the beginning of one{', or a number' if numbered else ''}."
    return ask(shown, default=default, read=read, help=help or hint, flag=flag)


def confirm(question: str, *, default: bool, help: str = "") -> bool:
    """Ask for yes or no; the default where nobody can be asked."""

    def read(text: str) -> bool:
        answers = {"y": True, "yes": True, "n": False, "no": False}
        if text.lower() not in answers:
            raise ValueError("answer y or n")
        return answers[text.lower()]

    if not can_ask():
        return default
    choice = "Y/n" if default else "y/N"
    return ask(f"{question}? ({choice})", default="", read=lambda text: read(text or "ny"[default]), help=help)


def confirm_or_stop(question: str, *, force: bool) -> None:
    """Ask before something that cannot be undone; stop the command unless the answer is yes.

    Raises:
        Failure: nobody can be asked and `force` was not given, or the answer is no.
    """
    if force:
        return
    if not can_ask():
        raise Failure("there is no terminal to ask for confirmation: give --force")
    if not confirm(question, default=False):
        raise Failure("nothing was changed")


def edited_by_hand(config: dict[str, Any]) -> dict[str, Any]:
    """What the user makes of a configuration in an editor.

    Raises:
        Failure: the editor failed, or what it left is no JSON object any more.
    """
    try:
        text = click.edit(json.dumps(config, indent=2), extension=".json")
    except click.ClickException as error:
        editor = error.message.partition(": Editing failed")[0]
        raise Failure(f"the editor {editor!r} ($EDITOR) failed or is not there; nothing was changed") from error
    if text is None:
        return config
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Failure(f"that is not JSON: {error}; nothing was changed") from error
    if not isinstance(found, dict):
        raise Failure("that is not a JSON object; nothing was changed")
    return found
