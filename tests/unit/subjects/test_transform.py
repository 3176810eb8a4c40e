"""Subject transforms: results and refusals recorded from nats-server 2.15.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.kernels.subjects.subject import is_valid_publish, matches
from slipstream.subjects.transform import InvalidTransform, SubjectTransform, transform_problem


def _no_dice(limit: int) -> int:
    raise AssertionError(f"rolled a die of {limit}")


RECORDED = [
    ("in.*", "out.{{wildcard(1)}}", "in.a", "out.a"),
    ("in.*.*", "out.$2.$1", "in.a.b", "out.b.a"),
    ("in.*", "out.fixed", "in.a", "out.fixed"),
    ("in.*.>", "out.$1.>", "in.a.b.c", "out.a.b.c"),
    ("in.>", "out.>", "in.a.b", "out.a.b"),
    ("in.*.*", "out.{{partition(10,1,2)}}.{{wildcard(1)}}.{{wildcard(2)}}", "in.foo.bar", "out.0.foo.bar"),
    ("in.*", "p.{{partition(10,1)}}", "in.orders-1", "p.4"),
    ("in.*", "p.{{partition(1000000,1)}}", "in.orders-1", "p.61254"),
    ("in.*", "p.{{partition(1000000)}}", "in.orders-1", "p.659791"),
    ("in.*", "p.{{partition(-3,1)}}", "in.orders-1", "p.2670061254"),
    ("in.*", "p.{{partition(0,1)}}", "in.x", "p.0"),
    ("in.*", "s.{{split(1,-)}}", "in.-abc-def--ghij-", "s.abc.def.ghij"),
    ("in.*", "s.{{splitFromLeft(1,3)}}", "in.12345", "s.123.45"),
    ("in.*", "s.{{SplitFromRight(1,3)}}", "in.12345", "s.12.345"),
    ("in.*", "s.{{splitfromleft(1,5)}}", "in.12345", "s.12345"),
    ("in.*", "s.{{SliceFromLeft(1,3)}}", "in.1234567890", "s.123.456.789.0"),
    ("in.*", "s.{{SliceFromRight(1,3)}}", "in.1234567890", "s.1.234.567.890"),
    ("in.*", "s.{{sliceFromLeft(1,3)}}", "in.123456", "s.123.456"),
    ("in.*", "s.{{sliceFromRight(1,3)}}", "in.123456", "s.123.456"),
    ("in.*", "s.{{sliceFromLeft(1,9)}}", "in.123", "s.123"),
    ("in.*", "s.{{left(1,3)}}", "in.12345", "s.123"),
    ("in.*", "s.{{right(1,3)}}", "in.12345", "s.345"),
    ("in.*", "s.{{left(1,9)}}", "in.12345", "s.12345"),
    ("in.*", "s.{{split(1,)}}", "in.abc", "s.a.b.c"),
    ("in.*", "s.{{wildcard(0)}}", "in.abc", "s.in"),
    ("in.*", "$KV.b.$1", "in.k", "$KV.b.k"),
    ("in.*", "s.{{split(1,.)}}", "in.k", "s.{{split(1,.)}}"),
]


@pytest.mark.parametrize(("source", "destination", "subject", "expected"), RECORDED)
def test_results(source: str, destination: str, subject: str, expected: str) -> None:
    transform = SubjectTransform(source.encode(), destination.encode())
    assert transform.find(subject.encode(), _no_dice) == expected.encode()
    assert not transform.is_random


PREFIX = "invalid mapping destination: "
REFUSED = [
    ("a.*", "b.{{foo(1)}}", PREFIX + "unknown function in {{foo(1)}}"),
    ("a.*", "b.{{SPLIT(1,-)}}", PREFIX + "unknown function in {{SPLIT(1,-)}}"),
    ("a.*", "b.{{wildcard()}}", PREFIX + "not enough arguments passed to the function in {{wildcard()}}"),
    ("a.*", "b.{{wildcard(1,2)}}", PREFIX + "too many arguments passed to the function in {{wildcard(1,2)}}"),
    ("a.*", "b.{{wildcard(2)}}", PREFIX + "wildcard index out of range in {{wildcard(2)}}: [2]"),
    ("a.*", "b.$2", PREFIX + "wildcard index out of range in $2: [2]"),
    (
        "a.*",
        "b.{{wildcard(x)}}",
        PREFIX + "function argument is invalid or in the wrong format in {{wildcard(x)}}",
    ),
    ("a", "b.{{wildcard(1)}}", PREFIX + "wildcard index out of range in {{wildcard(1)}}"),
    ("a", "b.$1", PREFIX + "wildcard index out of range in $1"),
    ("a.*", "b..c", PREFIX + "invalid transform"),
    ("a.*", "b.>.c", PREFIX + "invalid transform in c"),
    ("a", "b c", PREFIX + "invalid transform"),
    ("a", "", PREFIX + "invalid transform"),
    ("a.*", "b.{{split(1)}}", PREFIX + "not enough arguments passed to the function in {{split(1)}}"),
    ("a.*", "b.{{split(1,-,x)}}", PREFIX + "too many arguments passed to the function in {{split(1,-,x)}}"),
    ("a.*", "b.{{random(1,2)}}", PREFIX + "not enough arguments passed to the function in {{random(1,2)}}"),
    (
        "a.*",
        "b.{{partition(99999999999)}}",
        PREFIX + "function argument is invalid or in the wrong format in {{partition(99999999999)}}",
    ),
    ("a.>", "b", "invalid subject"),
    ("a", "b.>", "invalid subject"),
    ("a.*", "b.*", "invalid subject"),
    ("a..b", "b", "invalid subject"),
]


@pytest.mark.parametrize(("source", "destination", "text"), REFUSED)
def test_refusals(source: str, destination: str, text: str) -> None:
    assert transform_problem(source, destination) == text
    with pytest.raises(InvalidTransform) as refusal:
        SubjectTransform(source.encode(), destination.encode())
    assert str(refusal.value) == text


def test_random_uses_what_it_is_given() -> None:
    transform = SubjectTransform(b"a", b"b.{{random(7)}}.{{Random(0)}}.{{random(-4)}}")
    assert transform.is_random
    limits: list[int] = []
    assert transform.apply(b"a", lambda limit: limits.append(limit) or limit - 1) == b"b.6.0.3"
    assert limits == [7, 4]


def test_an_empty_source_means_everything() -> None:
    assert SubjectTransform(b"", b"x.>").find(b"a.b", _no_dice) == b"x.a.b"


def test_a_subject_outside_the_source_is_left_alone() -> None:
    transform = SubjectTransform(b"in.*", b"out.$1")
    assert transform.find(b"in", _no_dice) is None and transform.find(b"in.a.b", _no_dice) is None


def test_a_token_of_separators_stays_whole() -> None:
    assert SubjectTransform(b"in.*", b"s.{{split(1,-)}}").find(b"in.--", _no_dice) == b"s.--"
    assert SubjectTransform(b"in.*", b"s.{{split(1,-)}}").find(b"in.--a", _no_dice) == b"s.a"


def test_control_characters_cannot_enter_through_a_destination() -> None:
    """Advisory 2026-22: nothing that could end a protocol line is ever emitted."""
    for byte in ("\r", "\n", "\0", " ", "\t", "\f"):
        assert transform_problem("a.*", f"b{byte}c.$1") == PREFIX + "invalid transform"


@pytest.mark.parametrize(
    ("destination", "text"),
    [
        ("b.$1", "not using all of the token wildcard(s) in b.$1"),
        (
            "b.{{partition(2,1)}}.$2",
            "the only mapping function allowed for import transforms is {{Wildcard()}} in {{partition(2,1)}}",
        ),
    ],
)
def test_reversible_transforms_keep_every_wildcard(destination: str, text: str) -> None:
    with pytest.raises(InvalidTransform) as refusal:
        SubjectTransform(b"a.*.*", destination.encode(), reversible=True)
    assert str(refusal.value) == PREFIX + text


@given(order=st.permutations([1, 2, 3]), values=st.lists(st.sampled_from([b"x", b"y", b"z"]), min_size=3, max_size=3))
def test_reversed_undoes(order: list[int], values: list[bytes]) -> None:
    destination = b"out." + b".lit.".join(b"$%d" % number for number in order) + b".>"
    transform = SubjectTransform(b"in.*.*.a.*.>", destination, reversible=True)
    subject = b"in.%s.%s.a.%s.t.u" % tuple(values)
    there = transform.find(subject, _no_dice)
    assert there is not None
    assert transform.reversed().find(there, _no_dice) == subject


tokens = st.sampled_from([b"a", b"b-c", b"--", b"0123456789", "\u00e9\u00fc".encode(), b"*x", b"\xff\xfe"])
functions = st.sampled_from(
    [
        b"$%d",
        b"{{wildcard(%d)}}",
        b"{{partition(3,%d)}}",
        b"{{split(%d,-)}}",
        b"{{split(%d,)}}",
        b"{{splitFromLeft(%d,2)}}",
        b"{{splitFromRight(%d,2)}}",
        b"{{sliceFromLeft(%d,2)}}",
        b"{{sliceFromRight(%d,3)}}",
        b"{{left(%d,1)}}",
        b"{{right(%d,4)}}",
    ]
)


@given(
    values=st.lists(tokens, min_size=2, max_size=2),
    tail=st.lists(tokens, min_size=1, max_size=2),
    parts=st.lists(st.builds(lambda function, number: function % number, functions, st.integers(1, 2)), min_size=1),
)
def test_a_valid_subject_becomes_a_valid_subject(values: list[bytes], tail: list[bytes], parts: list[bytes]) -> None:
    transform = SubjectTransform(b"in.*.*.>", b".".join([b"out", *parts, b">"]))
    made = transform.find(b".".join([b"in", *values, *tail]), _no_dice)
    assert made is not None and matches(b"out.>", made), "no token is empty"
    # Cutting `*x` may leave a token `*`, which publishers may send anyway: it is an ordinary token then.
    assert is_valid_publish(made) or any(b"*" in token for token in values)
    assert made.endswith(b"." + b".".join(tail))


@given(
    source=st.text(max_size=12),
    destination=st.text(max_size=20) | st.sampled_from(["{{", "}}", "{{()}}", "$", "{{a(}}"]),
)
def test_no_text_makes_compiling_fail(source: str, destination: str) -> None:
    problem = transform_problem(source, destination)
    assert problem is None or problem
