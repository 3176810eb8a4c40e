"""The language of `find --expression`: what it answers, and that it can do nothing else."""

from __future__ import annotations

import pytest

from slipstream.cli.connection import Failure
from slipstream.cli.expressions import Expression

NAMES = {"config": {"name": "ORDERS", "subjects": ["a", "b"], "max_msgs": -1}, "state": {"messages": 12}}


@pytest.mark.parametrize(
    "text",
    [
        "state.messages > 10",
        "state.messages > 10 && config.name == 'ORDERS'",
        "state.messages < 10 || config.max_msgs == -1",
        "!(state.messages < 10)",
        "not state.messages < 10 and true",
        '"a" in config.subjects',
        '"z" not in config.subjects',
        'config.name in ["ORDERS", "OTHER"]',
        "config.subjects[0] == 'a'",
        "1 < state.messages <= 12",
        "state.messages * 2 - 4 == 20",
        "config.missing == nil",
        '"a" not in config.missing',
    ],
)
def test_true(text: str) -> None:
    assert Expression(text).holds(NAMES)
    assert not Expression(f"not ({text})").holds(NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "state.messages >",
        "print(1)",
        "__import__('os')",
        "state.keys()",
        "[x for x in config]",
        "lambda: 1",
        "config.name > 1",
        "unknown",
        "state.messages / 0 > 1",
        "2 ** 100000",
        "config is state",
        "config.subjects[99]",
        "x" * 20_000,
        "(" * 500 + ")" * 500,
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(Failure):
        Expression(text).holds(NAMES)


def test_fields_are_not_attributes() -> None:
    assert not Expression("config.__class__").holds(NAMES)
