"""Frozen value classes that cost almost nothing to define.

`@dataclass(frozen=True, slots=True)` compiles six functions a class: about 1.5 ms each, and 70 ms for the option
classes, on every start of a server that should listen in a tenth of a second. A `Record` shares one generic
implementation, so defining a class costs 25 µs and creating a value a few microseconds, which is right for
configuration and wrong for the data plane.

Type checkers see a frozen dataclass (`dataclass_transform`), and `dataclasses.replace`, `fields` and `asdict` work: the
field table they read is built when first asked for.

Invariants: no attribute can be set or deleted after construction; two records are equal when they have the same class
and equal compared fields; a secret field never shows in `repr`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar, dataclass_transform

if TYPE_CHECKING:
    import dataclasses
    from collections.abc import Mapping

__all__ = ["EMPTY", "Record", "has_default", "is_compared", "is_secret", "replace"]

# The default of a mapping field: one empty mapping for all. A plain dict, because `asdict` and `pickle` must be able to
# copy it; its type keeps everybody from writing to it.
EMPTY: Mapping[str, Any] = {}


class _DataclassFields:
    """Builds what the functions of the `dataclasses` module look for, when they look for it."""

    def __get__(self, value: Record | None, cls: type[Record]) -> dict[str, dataclasses.Field[Any]]:
        import dataclasses

        class_fields: dict[str, dataclasses.Field[Any]] = {}
        for name in cls.__match_args__:
            field: dataclasses.Field[Any] = dataclasses.field(compare=name not in cls._uncompared)
            if name in cls._defaults:
                field.default = cls._defaults[name]
            field.name, field.type = name, cls.__annotations__[name]
            field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]  # `fields` filters by this marker
            class_fields[name] = field
        return class_fields


@dataclass_transform(frozen_default=True)
class _RecordType(type):
    """Turns the annotations of a class into slots and keeps the defaults beside them."""

    def __new__(
        metacls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        secret: Iterable[str] = (),
        uncompared: Iterable[str] = (),
    ) -> _RecordType:
        names = tuple(
            field for field, kind in namespace.get("__annotations__", {}).items() if not kind.startswith("ClassVar")
        )
        defaults = {field: namespace.pop(field) for field in names if field in namespace}
        namespace["__slots__"] = names
        if names:
            namespace.update(
                __match_args__=names, _defaults=defaults, _secret=frozenset(secret), _uncompared=frozenset(uncompared)
            )
        return super().__new__(metacls, name, bases, namespace)


class Record(metaclass=_RecordType):
    """Base of the value classes. Subclasses list their fields as a dataclass does; they are not subclassed again."""

    __match_args__: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[Mapping[str, Any]] = EMPTY
    _secret: ClassVar[frozenset[str]] = frozenset()
    _uncompared: ClassVar[frozenset[str]] = frozenset()
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    else:
        __dataclass_fields__ = _DataclassFields()

        # Hidden from the type checker, which derives the exact signature of each class from its annotations.
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            names = self.__match_args__
            if args:
                if len(args) > len(names):
                    raise TypeError(f"{type(self).__name__} takes {len(names)} values, {len(args)} given")
                for name, value in zip(names, args, strict=False):
                    if name in kwargs:
                        raise TypeError(f"{type(self).__name__}.{name} given twice")
                    kwargs[name] = value
            values = {**self._defaults, **kwargs}
            assign = object.__setattr__
            for name in names:
                if name not in values:
                    raise TypeError(f"{type(self).__name__}.{name} has no value")
                assign(self, name, values[name])
            if len(values) > len(names):
                raise TypeError(f"{type(self).__name__} has no field {sorted(values.keys() - set(names))[0]!r}")

        def __setattr__(self, name: str, value: object) -> NoReturn:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be assigned: the value is frozen")

        def __delattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted: the value is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name) for name in self.__match_args__ if name not in self._uncompared
        )

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__match_args__ if name not in self._uncompared))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__ if name not in self._secret)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)


R = TypeVar("R", bound=Record)


# Functions, because a record has no attributes but its fields.


def is_secret(record: Record, name: str) -> bool:
    """Whether a field must not be shown."""
    return name in record._secret


def is_compared(record: Record, name: str) -> bool:
    """Whether a field counts when two records are compared."""
    return name not in record._uncompared


def has_default(record: Record, name: str) -> bool:
    """Whether a field may be left out."""
    return name in record._defaults


def replace(record: R, **changes: object) -> R:
    """The same record with some fields changed."""
    values = {name: getattr(record, name) for name in record.__match_args__}
    values.update(changes)
    return type(record)(**values)
