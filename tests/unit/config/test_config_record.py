"""Records behave as frozen dataclasses do, for their users and for the functions of the dataclasses module."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping

import pytest

from slipstream.config.record import EMPTY, Record, replace


class Point(Record, secret=("password",), uncompared=("note",)):
    x: int
    y: int = 2
    password: str = ""
    note: str = ""
    extra: Mapping[str, str] = EMPTY


def test_positions_names_and_defaults() -> None:
    point = Point(1, y=3)
    assert (point.x, point.y, point.password, point.extra) == (1, 3, "", {})


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, 2, "", "", {}, 6), {}), ((1,), {"x": 2}), ((1,), {"z": 1})]
)
def test_wrong_arguments(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Point(*args, **kwargs)  # type: ignore[arg-type]


def test_nothing_can_be_assigned_or_deleted() -> None:
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        point.other = 2  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        del point.x
    assert not hasattr(point, "__dict__")


def test_equality_and_hash_leave_out_uncompared_fields() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert Point(1) != Point(2)
    assert Point(1) != (1, 2)
    assert hash(Point(1, note="a", extra=())) == hash(Point(1, note="b", extra=()))  # type: ignore[arg-type]


def test_secrets_do_not_show() -> None:
    assert "hunter2" not in repr(Point(1, password="hunter2"))
    assert repr(Point(1)) == "Point(x=1, y=2, note='', extra={})"


def test_dataclasses_functions_work() -> None:
    point = Point(1, extra={"a": "b"})
    assert dataclasses.is_dataclass(point)
    assert dataclasses.replace(point, y=9) == replace(point, y=9) == Point(1, 9, extra={"a": "b"})
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "password": "", "note": "", "extra": {"a": "b"}}
    assert [field.name for field in dataclasses.fields(Point)] == ["x", "y", "password", "note", "extra"]
    assert dataclasses.fields(Point)[1].default == 2


def test_pickle_and_match() -> None:
    assert pickle.loads(pickle.dumps(EMPTY_POINT)) == EMPTY_POINT
    match EMPTY_POINT:
        case Point(x, y):
            assert (x, y) == (0, 2)


EMPTY_POINT = Point(0)
