"""`slipstream.dataclass` beside the original: the same class body, the same behaviour."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from slipstream.dataclass import dataclass

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("decorator", [dataclasses.dataclass, dataclass], ids=["original", "ours"])


@dataclass(frozen=True, slots=True)
class Pair:
    """On the module's level, for pickle."""

    left: int
    right: list[int]


def _classes(decorator: Decorator) -> tuple[Any, Any, Any]:
    @decorator(frozen=True, slots=True)
    class Frozen:
        """A value."""

        kinds: ClassVar[int] = 3
        a: int
        b: str = "x"

        @property
        def both(self) -> str:
            return f"{self.a}{self.b}"

    @decorator(slots=True)
    class Plain:
        """Changes."""

        a: int
        many: list[int] = dataclasses.field(default_factory=list)

        def __post_init__(self) -> None:
            self.a += 1

    @decorator(slots=True)
    class Derived(Plain):
        """Has one more."""

        c: int = 5

    return Frozen, Plain, Derived


@BOTH
def test_values_are_made_and_compared(decorator: Decorator) -> None:
    frozen, plain, derived = _classes(decorator)
    assert frozen(1).both == "1x" and frozen(a=1, b="y") == frozen(1, "y") != frozen(1)
    assert frozen(1) != (1, "x") and hash(frozen(1)) == hash(frozen(1)) and len({frozen(1), frozen(1), frozen(2)}) == 2
    assert frozen.kinds == 3 and frozen.__match_args__ == ("a", "b")
    assert plain(1).a == 2 and plain(1).many == [] and plain(1).many is not plain(1).many and plain(1) == plain(1)
    assert derived(1, [2], 3).c == 3 and derived(1).c == 5 and derived(1) != plain(1) and derived(1) == derived(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(plain(1))


@BOTH
def test_values_are_shown(decorator: Decorator) -> None:
    frozen, _, derived = _classes(decorator)
    assert repr(frozen(1)).endswith("Frozen(a=1, b='x')") and repr(derived(1)).endswith("Derived(a=2, many=[], c=5)")


@BOTH
def test_wrong_arguments_are_refused(decorator: Decorator) -> None:
    frozen, _, derived = _classes(decorator)
    for wrong in ((), (1, "x", 2)):
        with pytest.raises(TypeError, match=r"Frozen\.__init__"):
            frozen(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'd'"):
        derived(1, d=2)


@BOTH
def test_frozen_values_do_not_change_and_no_value_gets_other_attributes(decorator: Decorator) -> None:
    frozen, plain, derived = _classes(decorator)
    value = frozen(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        value.a = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'a'"):
        del value.a
    assert value.a == 1
    for changing in (plain(1), derived(1)):
        changing.a = 7
        assert changing.a == 7
        with pytest.raises(AttributeError):
            changing.other = 1
        assert not hasattr(changing, "__dict__")


@BOTH
def test_the_functions_of_the_dataclasses_module_work(decorator: Decorator) -> None:
    frozen, _, derived = _classes(decorator)
    assert dataclasses.replace(frozen(1), b="z") == frozen(1, "z")
    assert dataclasses.asdict(derived(1, [2])) == {"a": 2, "many": [2], "c": 5}
    assert [field.name for field in dataclasses.fields(derived)] == ["a", "many", "c"]
    assert dataclasses.fields(frozen)[1].default == "x" and dataclasses.fields(frozen)[1].type == "str"
    assert dataclasses.is_dataclass(frozen)


@BOTH
def test_values_without_equality_are_equal_to_themselves_alone(decorator: Decorator) -> None:
    @decorator(slots=True, eq=False)
    class Single:
        """Is itself."""

        a: int

    made: Any = Single
    one = made(1)
    assert one == one and one != made(1) and len({one, made(1)}) == 2


def test_values_are_copied_and_pickled() -> None:
    pair = Pair(1, [2])
    assert pickle.loads(pickle.dumps(pair)) == pair
    assert copy.deepcopy(pair) == pair and copy.deepcopy(pair).right is not pair.right


def test_a_class_without_slots_is_refused() -> None:
    with pytest.raises(TypeError, match="slots"):
        dataclass(frozen=True, slots=False)(type("Other", (), {}))


def test_jetstream_compiles_no_functions_for_its_classes_when_it_is_loaded() -> None:
    """The reason for all this: a start waits for as many classes as it defines."""
    code = """
import dataclasses, slipstream.server.server, slipstream.protocol.info
made = []
process = dataclasses._process_class
def noted(cls, *rest):
    made.append(f"{cls.__module__}.{cls.__name__}")
    return process(cls, *rest)

dataclasses._process_class = noted
import slipstream.server.jetstream.jetstream
print(made)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
