"""`dataclass` with slots, for modules that a server loads while somebody waits: defining a class costs little.

`dataclasses.dataclass` compiles five functions or more for a class, some 1.5 ms, whether or not anybody ever makes one;
JetStream has 80 of them. Here `__init__` is compiled when the first of a class is made, and the rest is shared
by all. From then on it is as fast as the original. See docs/adr/0042-classes-that-cost-little-to-define.md.

Type checkers see the original. `dataclasses.replace`, `fields` and `asdict` work, and `field` is theirs.

What this is not: all of `dataclasses`. There are slots, no order, no `InitVar`, no keyword-only fields and no generated
docstring.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NoReturn

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, eq: bool = True, slots: bool) -> Callable[[type], type]:
        """As `dataclasses.dataclass` of the same arguments; `slots` says what is true anyway."""
        if not slots:
            raise TypeError("these classes have slots")
        return lambda cls: _with_slots(cls, frozen=frozen, eq=eq)


_NOTHING: Final = object()  # in the place of a value that is not given


def _with_slots(cls: Any, *, frozen: bool, eq: bool) -> type:
    """The class once more, with slots in the place of its annotations."""
    own = dict(cls.__dict__)
    kinds = {name: kind for name, kind in own.get("__annotations__", {}).items() if not kind.startswith("ClassVar")}
    # A default in the class would be in the way of its slot.
    defaults = {name: own.pop(name) for name in kinds if name in own}
    if (inherited := getattr(cls, "_fields", None)) is not None:
        fields = _FieldTable({**inherited.kinds, **kinds}, {**inherited.defaults, **defaults}, frozen)
    else:
        fields = _FieldTable(kinds, defaults, frozen)
    names = tuple(fields.kinds)
    own |= {
        "__slots__": tuple(kinds),
        "__match_args__": names,
        "__dataclass_fields__": _DATACLASS_FIELDS,
        "_fields": fields,
        "_values": staticmethod(attrgetter(*names) if names else _no_values),
    }
    shared: dict[str, Any] = {"__init__": _first_init, "__repr__": _repr, "__reduce__": _reduce}
    if eq:
        shared |= {"__eq__": _eq, "__hash__": _hash if frozen else None}  # what may change has no hash
    if frozen:
        shared |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
    for name, function in shared.items():
        own.setdefault(name, function)
    for name in ("__dict__", "__weakref__"):
        own.pop(name, None)
    made: type = type(cls)(cls.__name__, cls.__bases__, own)
    made.__qualname__ = cls.__qualname__
    return made


class _FieldTable:
    """The fields of a class, and those that it inherits, in order."""

    __slots__ = ("defaults", "frozen", "kinds")

    def __init__(self, kinds: dict[str, str], defaults: dict[str, Any], frozen: bool) -> None:
        self.kinds = kinds
        self.defaults = defaults
        self.frozen = frozen


def _first_init(self: Any, *args: Any, **kwargs: Any) -> None:
    """The first of its class is made: the class gets an `__init__` of its own."""
    made: Any = next(cls for cls in type(self).__mro__ if "_fields" in cls.__dict__)
    made.__init__ = _compiled_init(made)
    made.__init__(self, *args, **kwargs)


def _compiled_init(cls: Any) -> Callable[..., None]:
    fields: _FieldTable = cls._fields
    known: dict[str, Any] = {"_nothing": _NOTHING}
    parameters, body = [], []
    for name in fields.kinds:
        value, default = name, fields.defaults.get(name, _NOTHING)
        if isinstance(default, dataclasses.Field):
            known[f"_make_{name}"] = default.default_factory
            parameters.append(f"{name}=_nothing")
            value = f"_make_{name}() if {name} is _nothing else {name}"
        elif default is not _NOTHING:
            known[f"_default_{name}"] = default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        if fields.frozen:
            known[f"_set_{name}"] = getattr(cls, name).__set__  # of its slot: `self` refuses to be assigned to
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(('self', *parameters))}):\n {'; '.join(body) or 'pass'}", known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


class _DataclassFields:
    """Builds what the functions of the `dataclasses` module look for, when they look for it."""

    def __get__(self, value: object, cls: Any) -> dict[str, dataclasses.Field[Any]]:
        fields: _FieldTable = cls._fields
        found: dict[str, dataclasses.Field[Any]] = {}
        for name, kind in fields.kinds.items():
            field = fields.defaults.get(name, dataclasses.MISSING)
            if not isinstance(field, dataclasses.Field):
                field = dataclasses.field(default=field)
            field.name, field.type = name, kind
            field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]  # `fields` filters by this marker
            found[name] = field
        return found


_DATACLASS_FIELDS: Final = _DataclassFields()


def _no_values(_self: object) -> tuple[()]:
    return ()


def _eq(self: Any, other: Any) -> bool:
    return bool(self._values(self) == other._values(other)) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._values(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({shown})"


def _reduce(self: Any) -> tuple[type, tuple[object, ...]]:
    return type(self), tuple(getattr(self, name) for name in self.__match_args__)


def _refuse_assignment(_self: Any, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_self: Any, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
