"""The subject kernel, compiled and uncompiled, against the plain model."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from models import subject as model
from slipstream.kernels.subjects import subject as compiled


def _uncompiled() -> ModuleType:
    """The same source run as plain Python, which is what a build without a C compiler would get."""
    path = Path(compiled.__file__ or "").parent / "subject.py"
    spec = importlib.util.spec_from_file_location("uncompiled_subject", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plain = _uncompiled()
both = pytest.mark.parametrize("kernel", [compiled, plain], ids=["compiled", "plain"])

# Few distinct tokens, so that equal ones meet often; the odd ones are literals that merely look like wildcards.
words = st.sampled_from([b"a", b"b", b"*", b">", b"a*", b">b", b"", b"**"])
subjects = st.lists(words, min_size=1, max_size=4).map(b".".join)
literals = st.lists(st.sampled_from([b"a", b"b", b"*", b">", b"a*", b">b", b""]), min_size=1, max_size=5).map(b".".join)
patterns = st.lists(st.sampled_from([b"a", b"b", b"*", b"a*"]), max_size=3).flatmap(
    lambda head: st.sampled_from([b"a", b"*", b">", b">b"]).map(lambda last: b".".join([*head, last]))
)
noise = st.lists(st.sampled_from([b".", b"a", b"*", b">", b" ", b"\t", b"\r", b"\n", b"\f", b"\0", b"\x0b", b"\xff"]))
any_bytes = noise.map(b"".join) | st.binary(max_size=12)


def test_compiled_kernel_is_the_one_loaded() -> None:
    assert compiled.__file__ is not None and compiled.__file__.endswith(".so")


@both
@given(subject=any_bytes | subjects)
@example(subject=b"")
@example(subject=b".")
@example(subject=b"a.>.b")
def test_validity_and_counts_agree(kernel: ModuleType, subject: bytes) -> None:
    assert kernel.is_valid_subscription(subject) == model.is_valid_subscription(subject)
    assert kernel.is_valid_publish(subject) == model.is_valid_publish(subject)
    assert kernel.is_literal(subject) == model.is_literal(subject)
    assert kernel.token_count(subject) == model.token_count(subject)


@both
@given(pattern=subjects | patterns | any_bytes, literal=literals | any_bytes)
def test_match_agrees(kernel: ModuleType, pattern: bytes, literal: bytes) -> None:
    assert kernel.matches(pattern, literal) == model.matches(pattern, literal)


@both
@given(narrow=patterns, wide=patterns)
def test_subset_is_what_its_definition_says(kernel: ModuleType, narrow: bytes, wide: bytes) -> None:
    assert kernel.is_subset(narrow, wide) == model.is_subset(narrow, wide)


@both
@given(a=patterns, b=patterns)
def test_overlap_is_what_its_definition_says(kernel: ModuleType, a: bytes, b: bytes) -> None:
    assert kernel.overlaps(a, b) == model.overlaps(a, b)
    assert kernel.overlaps(a, b) == kernel.overlaps(b, a)


@both
@given(key=st.binary(max_size=40))
@example(key=b"foobar")
def test_partition_hash_is_fnv_1a(kernel: ModuleType, key: bytes) -> None:
    assert kernel.partition_hash(key) == model.partition_hash(key)


@given(a=any_bytes | subjects, b=any_bytes | subjects)
def test_compiled_and_plain_agree_on_anything(a: bytes, b: bytes) -> None:
    for name in ("matches", "is_subset", "overlaps"):
        assert getattr(compiled, name)(a, b) == getattr(plain, name)(a, b)


@both
@given(subject=subjects, other=patterns)
def test_an_empty_token_relates_to_nothing(kernel: ModuleType, subject: bytes, other: bytes) -> None:
    for broken in (subject + b".", b"." + subject, subject + b".." + subject, b""):
        assert not kernel.matches(other, broken) and not kernel.matches(broken, subject)
        assert not kernel.is_subset(broken, other) and not kernel.is_subset(other, broken)
        assert not kernel.overlaps(broken, other) and not kernel.overlaps(other, broken)
