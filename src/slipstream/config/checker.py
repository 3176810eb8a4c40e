"""Reading maps of a configuration by tables of keys.

A block of the configuration is a table: one `Key` a row, with the names it answers to, the reader that checks its
value, the field of the options record it fills, whether a reload may change it, and its documentation. `read_map`
walks a map by a table.

What this is not: rules between keys; those are in `load` and `validate`.

Invariants: a reader returns a checked value or raises `ConfigError` with the place of the key; `read_map` collects the
errors of all keys, so that one run shows everything that is wrong. Wording follows nats-server 2.15, including Go's
type names, because operators search for these texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from slipstream.config.limits import CONFIG_ERRORS_MAX
from slipstream.errors import ConfigError

if TYPE_CHECKING:
    from slipstream.config.listener_options import TLSOptions
    from slipstream.config.parser import Value

__all__ = [
    "CheckDeclared",
    "Checker",
    "Key",
    "KeyTable",
    "Kind",
    "Reader",
    "go_type",
    "quote",
    "read_block",
    "read_map",
    "refusal",
    "require_map",
    "wrong_type",
]


# Takes a block; answers with a problem and its file, line and column, or None.
CheckDeclared: TypeAlias = "Callable[[Value], tuple[str, tuple[str, int, int]] | None]"


class Checker:
    """What one load has found wrong so far, and what it may ask the outside."""

    __slots__ = ("check_declared", "check_mapping", "check_tls", "errors", "warnings")

    def __init__(
        self,
        check_tls: Callable[[TLSOptions], str | None] | None = None,
        check_mapping: Callable[[str, str], str | None] | None = None,
        check_declared: CheckDeclared | None = None,
    ) -> None:
        """Start with nothing wrong.

        Args:
            check_tls: loads the files of a TLS block and says what is wrong with them; None skips that.
            check_mapping: says what is wrong with a subject transform; None skips that.
            check_declared: says what is wrong with declared streams, and where; None skips that.
        """
        self.check_tls = check_tls
        self.check_mapping = check_mapping
        self.check_declared = check_declared
        self.errors: list[ConfigError] = []
        self.warnings: list[ConfigError] = []

    def error(self, error: ConfigError) -> None:
        """Note an error; beyond CONFIG_ERRORS_MAX they are all the same to the operator."""
        if len(self.errors) < CONFIG_ERRORS_MAX:
            self.errors.append(error)

    def warn(self, value: Value, field: str, reason: str) -> None:
        """Note a use that still works but should change."""
        if len(self.warnings) < CONFIG_ERRORS_MAX:
            self.warnings.append(refusal(value, f"invalid use of field {quote(field)}: {reason}"))


# Takes the checker, the value and the key as written; returns the checked value.
Reader: TypeAlias = "Callable[[Checker, Value, str], object]"
# Name of the type in the documentation, and the reader.
Kind: TypeAlias = "tuple[str, Reader]"


class Key:
    """One row of a table of keys."""

    __slots__ = ("doc", "field", "names", "read", "reloadable", "type")

    def __init__(
        self,
        names: str,
        kind: Kind,
        doc: str,
        *,
        field: str | None = None,
        reloadable: bool = False,
    ) -> None:
        """Describe a key.

        Args:
            names: canonical name first, then aliases, separated by blanks.
            kind: name of the type for the documentation, and the reader.
            doc: what the key does.
            field: field of the options record; by default the canonical name; empty if the reader returns a mapping of
                several fields.
            reloadable: whether a reload may change it.
        """
        self.names = tuple(names.split())
        self.type, self.read = kind
        self.doc = doc
        self.field = self.names[0] if field is None else field
        self.reloadable = reloadable


class KeyTable:
    """The keys of one kind of map."""

    __slots__ = ("_index", "keys", "unknown")

    def __init__(self, *keys: Key, unknown: str = "unknown field {}") -> None:
        """Args: the rows, and the message for a key that is not among them (`{}` is its quoted name)."""
        self.keys = keys
        self.unknown = unknown
        self._index = {name: key for key in keys for name in key.names}
        assert len(self._index) == sum(len(key.names) for key in keys), "a name is in the table twice"

    def find(self, name: str) -> Key | None:
        """The row a key of a file belongs to, whatever its case."""
        return self._index.get(name) or self._index.get(name.lower())


def read_map(checker: Checker, value: Value, table: KeyTable) -> dict[str, object]:
    """Check a map by a table and return the fields it sets.

    Errors are collected in `checker`; the result then lacks those fields.
    """
    fields: dict[str, object] = {}
    for name, entry in require_map(value).items():
        key = table.find(name)
        if key is None:
            # A key that only exists to be used as $NAME needs no meaning of its own.
            if not entry.used_as_variable:
                checker.error(refusal(entry, table.unknown.format(quote(name))))
            continue
        try:
            result = key.read(checker, entry, name)
        except ConfigError as error:
            checker.error(error)
            continue
        if key.field:
            fields[key.field] = result
        else:
            assert isinstance(result, Mapping), f"the reader of {name} returns several fields"
            fields.update(result)
    return fields


def read_block(checker: Checker, value: Value, table: KeyTable, name: str) -> dict[str, object]:
    """The same for a block with a name, which has to be a map."""
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected {name} to be a map, got {go_type(value)}")
    return read_map(checker, value, table)


def require_map(value: Value) -> dict[str, Value]:
    """The map a value holds, or the error Go's type assertion gives."""
    if not isinstance(value.data, dict):
        raise wrong_type(value, "map[string]interface {}")
    return value.data


def refusal(value: Value, message: str) -> ConfigError:
    """An error at the place of a value."""
    at = value.position
    return ConfigError(message, file=at.file, line=at.line, column=at.column)


def wrong_type(value: Value, wanted: str) -> ConfigError:
    """What nats-server says when a value has another type than the key takes."""
    return refusal(value, f"interface conversion: interface {{}} is {go_type(value)}, not {wanted}")


def go_type(value: Value) -> str:
    """Name of the Go type nats-server would have parsed the value into."""
    data = value.data
    if isinstance(data, bool):  # before int, which bool is one of
        return "bool"
    names = {str: "string", int: "int64", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}
    return names.get(type(data), "time.Time")


def quote(text: str) -> str:
    """Text in double quotes, with control characters escaped."""
    escaped = "".join(_ESCAPES.get(char) or (char if char.isprintable() else f"\\x{ord(char):02x}") for char in text)
    return f'"{escaped}"'


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
