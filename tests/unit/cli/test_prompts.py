"""Questions: defaults, help, wrong answers, lists, and nobody to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import pytest

from slipstream.cli import prompts
from slipstream.cli.connection import Failure

Answers = Callable[..., None]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Somebody at a terminal who gives these answers, then goes away."""

    def give(*lines: str) -> None:
        remaining: Iterator[str] = iter(lines)

        def read() -> str:
            try:
                return next(remaining)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr("builtins.input", read)

    monkeypatch.setattr(prompts, "can_ask", lambda: True)
    return give


def test_answers_defaults_and_help(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    answers("x", "?", "7")
    assert prompts.ask("Number", default="3", read=int, help="A number.") == 7
    shown = click.unstyle(capsys.readouterr().out)
    assert shown.count("? Number [3] ") == 3 and "invalid literal" in shown and "A number." in shown
    answers("")
    assert prompts.ask("Number", default="3", read=int) == 3
    answers("", "given")
    assert prompts.ask("Needed", read=str) == "given"


def test_an_end_of_input_stops(answers: Answers) -> None:
    answers()
    with pytest.raises(click.Abort):
        prompts.ask("Needed", read=str)


def test_choices_by_beginning_and_number(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    answers("o", "ol")
    assert prompts.ask_choice("Which", ["new", "old", "other"]) == "old"
    names = [f"STREAM{number}" for number in range(1, 8)]
    answers("99", "3")
    assert prompts.ask_choice("Which", names) == "STREAM3"
    assert "    3) STREAM3\n" in capsys.readouterr().out
    answers("STREAM7")
    assert prompts.ask_choice("Which", names) == "STREAM7"


def test_confirmations(answers: Answers) -> None:
    answers("", "", "maybe", "YES", "n")
    assert prompts.confirm("Sure", default=True)
    assert not prompts.confirm("Sure", default=False)
    assert prompts.confirm("Sure", default=False)
    with pytest.raises(Failure, match="nothing was changed"):
        prompts.confirm_or_stop("Sure", force=False)
    prompts.confirm_or_stop("Sure", force=True)


def test_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "can_ask", lambda: False)
    assert prompts.ask("Number", default="3", read=int) == 3
    assert prompts.ask_choice("Which", ["a", "b"], default="b") == "b"
    assert prompts.confirm("Sure", default=True)
    with pytest.raises(Failure, match="--flag is needed"):
        prompts.ask("Needed", read=str, flag="--flag")
    with pytest.raises(Failure, match="give --force"):
        prompts.confirm_or_stop("Sure", force=False)
