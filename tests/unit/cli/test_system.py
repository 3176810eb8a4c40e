"""What reports over many servers have in common."""

from __future__ import annotations

import pytest

from slipstream.cli.system import shown_names


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["n1.east.example.net", "n2.east.example.net"], ["n1", "n2"]),
        (["n1.east.example.net", "n2.west.example.net"], ["n1.east", "n2.west"]),
        (["n1.example.net"], ["n1"]),
        (["a.b.c", "b.c"], ["a.b", "b"]),
        (["n1", "n1.example.net"], ["n1", "n1.example.net"]),
        (["a.x", "b.y"], ["a.x", "b.y"]),
        ([], []),
    ],
)
def test_names_are_shown_without_what_all_end_with(names: list[str], shown: list[str]) -> None:
    assert shown_names(names, compact=True) == dict(zip(names, shown, strict=True))
    assert shown_names(names, compact=False) == dict(zip(names, names, strict=True))
