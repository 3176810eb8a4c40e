"""Items of a configuration file to values that know where they were written.

Resolves variables (`$NAME`: an enclosing map, then the environment) and includes (relative to the including file, in
any map). What this is not: it does not know which keys exist; `load` does.

Invariants: whatever the text, the result is a `Value` or a `ConfigError`; includes and nesting are bounded; an included
file sees no variable of the including one, as in nats-server.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from slipstream.config import lexer
from slipstream.config.limits import CONFIG_INCLUDE_DEPTH_MAX, CONFIG_INCLUDES_MAX, CONFIG_VARIABLE_DEPTH_MAX
from slipstream.config.options import Position
from slipstream.config.source import ConfigSyntaxError, ConfigText
from slipstream.errors import ConfigError
from slipstream.limits import CONFIG_FILE_MAX_BYTES

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Data", "Reader", "Value", "parse_file", "parse_text"]

# Returns the bytes of a file, or raises OSError.
Reader = Callable[[str], bytes]

# What a value can hold. Map keys are kept as written; looking them up without regard to case is the loader's work.
Data: TypeAlias = "str | bool | int | float | datetime | list[Value] | dict[str, Value]"

_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)

_UNITS: Final[Mapping[str, int]] = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kmgtpe", start=1)},
    **{letter + rest: 1024**power for power, letter in enumerate("kmgtpe", start=1) for rest in ("b", "i", "ib")},
}
_TRUE: Final = frozenset({"true", "yes", "on"})


class Value:
    """One value with its place. In a map the place is that of the key, in an array that of the value."""

    __slots__ = ("data", "end", "source", "start", "used_as_variable")

    def __init__(self, data: Data, place: _Place) -> None:
        """Args: what was written, and (source, start offset, end offset) of where."""
        self.data = data
        self.source, self.start, self.end = place
        self.used_as_variable = False  # a `$NAME` refers to it, so an unknown key is not an error

    @property
    def position(self) -> Position:
        """File, line and column for an error message."""
        return self.source.position(self.start, self.end)

    def plain(self) -> object:
        """The data without places: dicts, lists and scalars."""
        if isinstance(self.data, dict):
            return {key: value.plain() for key, value in self.data.items()}
        if isinstance(self.data, list):
            return [value.plain() for value in self.data]
        return self.data


_Place = tuple[ConfigText, int, int]


def parse_file(path: str, *, read: Reader, environment: Mapping[str, str]) -> Value:
    """Parse a file and everything it includes.

    Args:
        path: the file, as the operator wrote it; appears in error messages.
        read: gives the content of a file.
        environment: variables for `$NAME`.

    Raises:
        ConfigError: the file cannot be read or is not a configuration.
    """
    return _Loader(read, environment).file(path, include_depth=0)


def parse_text(
    text: str, *, name: str = "", read: Reader | None = None, environment: Mapping[str, str] | None = None
) -> Value:
    """Parse a text that is not in a file. Includes need `read`.

    Raises:
        ConfigError: the text is not a configuration.
    """
    loader = _Loader(read or _no_files, environment or {})
    return loader.text(ConfigText(name, text), include_depth=0, pending_variables=frozenset())


def _no_files(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)


class _Loader:
    """What one load shares: where files come from, the environment, how much was included."""

    __slots__ = ("environment", "include_count", "read")

    def __init__(self, read: Reader, environment: Mapping[str, str]) -> None:
        self.read = read
        self.environment = environment
        self.include_count = 0  # over all files, bounded by CONFIG_INCLUDES_MAX

    def file(self, path: str, include_depth: int) -> Value:
        try:
            content = self.read(path)
        except OSError as error:
            raise ConfigError(_os_error_text(path, error), file=path) from None
        if len(content) > CONFIG_FILE_MAX_BYTES:
            raise ConfigError(f"{path}: configuration file is larger than {CONFIG_FILE_MAX_BYTES} bytes", file=path)
        source = ConfigText(path, content.decode("utf-8", "surrogateescape"))
        return self.text(source, include_depth=include_depth, pending_variables=frozenset())

    def text(self, source: ConfigText, *, include_depth: int, pending_variables: frozenset[str]) -> Value:
        """Parse one text.

        Args:
            source: the text.
            include_depth: how many files include each other down to this one.
            pending_variables: environment variables being resolved, to find cycles.
        """
        root: dict[str, Value] = {}
        containers: list[dict[str, Value] | list[Value]] = [root]
        keys: list[lexer.Item] = []
        last_kind, last_text = lexer.EOF, ""
        for kind, text, start, end in lexer.scan(source):
            if kind == lexer.KEY:
                keys.append((kind, text, start, end))
            elif kind == lexer.MAP_START:
                containers.append({})
            elif kind == lexer.ARRAY_START:
                containers.append([])
            elif kind == lexer.EOF:
                # A closing brace too many reads as a key without value; JSON-like files have it.
                if last_kind == lexer.KEY and last_text != "}":
                    at = source.position(end, end)
                    message = f"config is invalid ({at.file}:{at.line}:{at.column})"
                    raise ConfigSyntaxError(message, file=at.file, line=at.line, column=at.column)
            elif kind == lexer.INCLUDE:
                target = containers[-1]
                assert isinstance(target, dict), "the scanner finds includes in maps only"
                target.update(self.included(source, text, (start, end), include_depth))
            else:
                place = (source, start, end)
                if kind == lexer.VARIABLE:
                    data = self.variable(text, containers, place, include_depth, pending_variables)
                    value = Value(data, place)
                elif kind == lexer.MAP_END or kind == lexer.ARRAY_END:
                    value = Value(containers.pop(), place)
                else:
                    value = Value(_scalar(kind, text, place), place)
                _store(value, containers[-1], keys)
            last_kind, last_text = kind, text
        return Value(root, (source, 0, 0))

    def variable(
        self,
        name: str,
        containers: list[dict[str, Value] | list[Value]],
        place: _Place,
        include_depth: int,
        pending_variables: frozenset[str],
    ) -> Data:
        """The value a `$NAME` stands for."""
        if name.startswith("2a$"):
            return "$" + name  # a bcrypt hash without quotes
        for container in reversed(containers):
            if isinstance(container, dict) and name in container:
                container[name].used_as_variable = True
                return container[name].data
        source, start, end = place
        line = source.line(end)
        if name in pending_variables:
            reason = f"variable reference cycle for '{name}'"
        elif len(pending_variables) >= CONFIG_VARIABLE_DEPTH_MAX:
            reason = f"more than {CONFIG_VARIABLE_DEPTH_MAX} variables refer to each other"
        else:
            if name not in self.environment:
                raise source.error(f"variable reference for '{name}' on line {line} can not be found", start, end)
            try:
                text = ConfigText(f"${name}", f"pk={self.environment[name]}")
                pending = pending_variables | {name}
                parsed = self.text(text, include_depth=include_depth, pending_variables=pending)
                assert isinstance(parsed.data, dict)
                return parsed.data["pk"].data
            except ConfigError as error:
                reason = str(error)
        message = f"variable reference for '{name}' on line {line} could not be parsed: {reason}"
        raise source.error(message, start, end)

    def included(self, source: ConfigText, path: str, span: tuple[int, int], include_depth: int) -> dict[str, Value]:
        """The top-level entries of an included file."""
        self.include_count += 1
        reason = ""
        if include_depth >= CONFIG_INCLUDE_DEPTH_MAX:
            reason = f"more than {CONFIG_INCLUDE_DEPTH_MAX} files include each other"
        elif self.include_count > CONFIG_INCLUDES_MAX:
            reason = f"more than {CONFIG_INCLUDES_MAX} includes"
        if reason:
            raise source.error(f"error parsing include file '{path}', {reason}", *span)
        # Go's filepath.Join: an absolute path, too, is taken below the directory of the including file.
        full_path = posixpath.normpath(f"{posixpath.dirname(source.name) or '.'}/{path}")
        try:
            entries = self.file(full_path, include_depth + 1).data
        except ConfigError as error:
            message = f"error parsing include file '{path}', {error}"
            if not error.line:
                raise source.error(message, *span) from None
            raise ConfigSyntaxError(message, file=error.file, line=error.line, column=error.column) from None
        assert isinstance(entries, dict)
        return entries


def _store(value: Value, container: dict[str, Value] | list[Value], keys: list[lexer.Item]) -> None:
    if isinstance(container, list):
        container.append(value)
        return
    _, key, value.start, value.end = keys.pop()
    container[key] = value


def _scalar(kind: int, text: str, place: _Place) -> Data:
    if kind == lexer.STRING:
        return text
    if kind == lexer.BOOL:
        return text.lower() in _TRUE
    if kind == lexer.INTEGER:
        return _integer(text, place)
    source, start, end = place
    if kind == lexer.FLOAT:
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise source.error(f"float '{text}' is out of the range", start, end)
        return number
    assert kind == lexer.DATE
    from datetime import UTC, datetime  # no option is a date, so a start does not pay for the module

    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise source.error(f"expected Zulu formatted DateTime, but got '{text}'", start, end) from None


def _integer(text: str, place: _Place) -> int:
    source, start, end = place
    digits = text.rstrip("kmgtpebiKMGTPEBI")
    unit = _UNITS.get(text[len(digits) :].lower())
    if unit is None or not digits.isascii():
        raise source.error(f"expected integer, but got '{text}'", start, end)
    # Twenty digits and a sign are out of range whatever they are; int() of a million digits takes seconds.
    number = int(digits) * unit if len(digits) <= 20 else _INT64_MAX + 1
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise source.error(f"integer '{text}' is out of the range", start, end)
    return number


def _os_error_text(path: str, error: OSError) -> str:
    """The words Go has for a file that cannot be read."""
    verb = "read" if isinstance(error, IsADirectoryError) else "open"
    return f"{verb} {path}: {(error.strerror or str(error)).lower()}"
