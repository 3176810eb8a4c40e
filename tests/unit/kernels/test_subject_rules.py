"""The rules of subjects, one example each; the differential test has the rest."""

import pytest

from slipstream.kernels.subjects.subject import (
    is_literal,
    is_subset,
    is_valid_publish,
    is_valid_subscription,
    matches,
    overlaps,
    token_count,
)


@pytest.mark.parametrize(
    "subject", [b"a", b"a.b", b"*", b">", b"a.*.>", b"a*.>b", b"\xc3\xa9.\xff", b"$SYS.x", b"a/b-c_d"]
)
def test_subjects_one_may_subscribe_to(subject: bytes) -> None:
    assert is_valid_subscription(subject)
    assert is_valid_publish(subject) == is_literal(subject)


@pytest.mark.parametrize("subject", [b"", b".", b"a.", b".a", b"a..b", b">.a", b"a.>.b", b"..", b"*."])
def test_subjects_nobody_may_use(subject: bytes) -> None:
    assert not is_valid_subscription(subject) and not is_valid_publish(subject)


@pytest.mark.parametrize("byte", [b"\r", b"\n", b"\0", b" ", b"\t", b"\f"])
def test_control_characters_are_not_part_of_a_subject(byte: bytes) -> None:
    """Advisory 2026-22: what could end or split a protocol line must not get into one."""
    for subject in (byte, b"a" + byte, byte + b"a", b"a." + byte, b"a" + byte + b"b.c"):
        assert not is_valid_subscription(subject) and not is_valid_publish(subject)


def test_wildcards_are_whole_tokens() -> None:
    assert matches(b"a.*", b"a.b") and not matches(b"a.*", b"a") and not matches(b"a.*", b"a.b.c")
    assert matches(b"a.>", b"a.b.c") and not matches(b"a.>", b"a")
    assert not matches(b"a*", b"ab") and matches(b"a*", b"a*")
    assert matches(b"a.*", b"a.>"), "published wildcards are ordinary tokens"


def test_subset_and_overlap_of_patterns() -> None:
    assert is_subset(b"a.*", b"a.>") and not is_subset(b"a.>", b"a.*") and is_subset(b">", b">")
    assert overlaps(b"a.*", b"*.b") and not overlaps(b"a.*", b"b.>") and not overlaps(b"a", b"a.>")


def test_token_count() -> None:
    assert [token_count(subject) for subject in (b"", b"a", b"a.b", b"a..b")] == [0, 1, 2, 3]


@pytest.mark.parametrize("other", [None, "a", bytearray(b"a"), 1])
def test_other_types_are_a_type_error(other: object) -> None:
    with pytest.raises(TypeError):
        matches(other, b"a")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        is_valid_subscription(other)  # type: ignore[arg-type]
