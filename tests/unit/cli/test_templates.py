"""Functions in bodies."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.cli.templates import Template, TemplateError


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("Order # {{Count}}", r"Order # 7"),
        ("{{ Count }}/{{.Count}}/{{Cnt}}", r"7/7/7"),
        ("{{TimeStamp}}", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"),
        ("{{Time}}", r"\d{1,2}:\d\d[AP]M"),
        ("{{Unix}}", r"\d{10,}"),
        ("{{UnixNano}}", r"\d{19,}"),
        ("{{ID}}", r"\w{22}"),
        ("{{ Random 3 5 }}", r"\w{3,5}"),
        ("{{Random(3, 3)}}", r"\w{3}"),
        ("no {braces} }}", r"no {braces} }}"),
    ],
)
def test_functions(text: str, pattern: str) -> None:
    assert re.fullmatch(pattern, Template(text).expand(7))


@pytest.mark.parametrize("text", ["{{Nope}}", "{{Random}}", "{{Random 5 3}}", "{{Count 1 2}}", "{{", "a {{ 1 + 2 }}"])
def test_wrong_templates_are_refused(text: str) -> None:
    with pytest.raises(TemplateError):
        Template(text)


def test_the_request_is_not_expanded_again() -> None:
    assert Template("got {{Request}}", "{{Count}}").expand(1) == "got {{Count}}"


@given(st.text(string.printable).filter(lambda text: "{{" not in text), st.integers(0))
def test_text_without_functions_is_left_alone(text: str, count: int) -> None:
    template = Template(text)
    assert template.is_constant
    assert template.expand(count) == text
