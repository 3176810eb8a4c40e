"""The plain questions of `jsm`: a label, a colon, an answer."""

from __future__ import annotations

from collections.abc import Sequence

import click

from slipstream.cli.connection import Failure
from slipstream.cli.prompts import can_ask

__all__ = ["begin", "one_of", "say_ok", "text", "yes"]


def begin() -> None:
    """Say that questions follow.

    Raises:
        Failure: there is nobody to ask.
    """
    if not can_ask():
        raise Failure("this command asks questions and needs a terminal; `stream add` and `consumer add` do not")
    click.echo("Enter the following information")


def text(label: str, *, needed: bool = False) -> str:
    """The answer to a question."""
    while True:
        click.echo(f"{label}: ", nl=False)
        try:
            answer = input().strip()
        except EOFError:
            raise click.Abort from None
        if answer or not needed:
            return answer


def one_of(label: str, choices: Sequence[str], default: str = "") -> str:
    """One of some words; their beginning is enough."""
    while True:
        answer = text(label).lower() or default
        found = [choice for choice in choices if answer and choice.startswith(answer)]
        if len(found) == 1:
            return found[0]
        click.echo(f"one of {', '.join(choices)}")


def yes(label: str) -> bool:
    """Yes unless the answer is no."""
    return not text(label).lower().startswith("n")


def say_ok() -> None:
    """What the preview's server said when something was done."""
    click.echo('Received response of "+OK"')
