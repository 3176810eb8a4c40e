"""What clients are told instead of the address."""

from __future__ import annotations

import pytest

from slipstream.config.addresses import advertised, split_host_port


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a:1", ("a", 1)),
        ("a", ("a", 4222)),
        ("a:0", ("a", 4222)),
        ("a:-1", ("a", 4222)),
        (" a : 7", ("a", 7)),
        ("[::1]:7", ("::1", 7)),
        ("[::1]", ("::1", 4222)),
        (":7", ("", 7)),
    ],
)
def test_an_address_may_lack_its_port(text: str, told: tuple[str, int]) -> None:
    assert advertised(text, 4222) == told


@pytest.mark.parametrize("text", ["a:b", "a:b:c", "a:", "::1", "[a", "a:1٢", "a:1_0"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"too many colons|invalid syntax"):
        advertised(text, 4222)


def test_split() -> None:
    assert split_host_port("[::1]:7") == ("::1", "7")
    assert split_host_port("a") is None
