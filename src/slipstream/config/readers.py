"""The plain readers of configuration values: text, numbers, durations, addresses, lists.

Each has the signature of `checker.Reader`. The constants at the end pair a reader with the name of its type, for use in
tables of keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from slipstream.config.addresses import split_host_port
from slipstream.config.checker import Checker, Key, Kind, Reader, go_type, quote, refusal, wrong_type
from slipstream.config.durations import parse_duration
from slipstream.config.parser import Value
from slipstream.limits import MAX_INT32
from slipstream.units import SECOND_NS

__all__ = [
    "ADDRESS_KEYS",
    "BOOLEAN",
    "DURATION",
    "INT32",
    "INTEGER",
    "LISTEN",
    "SIZE",
    "STRING",
    "WRITE_TIMEOUT",
    "address",
    "boolean",
    "checked_url",
    "choice",
    "duration",
    "duration_or",
    "duration_text",
    "integer",
    "map_of_text",
    "seconds",
    "storage_size",
    "strict_text_list",
    "text",
    "text_list",
    "urls",
    "without_blanks",
]


def text(_checker: Checker, value: Value, _key: str) -> str:
    """A string."""
    if not isinstance(value.data, str):
        raise wrong_type(value, "string")
    return value.data


def boolean(_checker: Checker, value: Value, _key: str) -> bool:
    """True or false."""
    if not isinstance(value.data, bool):
        raise wrong_type(value, "bool")
    return value.data


def integer(_checker: Checker, value: Value, _key: str) -> int:
    """A whole number; units such as MB have been applied by the parser."""
    if not isinstance(value.data, int) or isinstance(value.data, bool):
        raise wrong_type(value, "int64")
    return value.data


def int32(checker: Checker, value: Value, key: str) -> int:
    """A whole number that fits a 32-bit field."""
    number = integer(checker, value, key)
    if number > MAX_INT32:
        raise refusal(value, f"{key} value is too big")
    return number


def without_blanks(what: str) -> Reader:
    """A name that must not contain blanks."""

    def read(checker: Checker, value: Value, key: str) -> str:
        name = text(checker, value, key)
        if " " in name:
            raise refusal(value, f"{what} name cannot contain spaces")
        return name

    return read


def duration(name: str = "", *, seconds_warn: bool = True) -> Reader:
    """A duration; a bare number means seconds, with a warning.

    Args:
        name: the name in messages; by default the key as written.
        seconds_warn: whether a bare number earns a warning.
    """

    def read(checker: Checker, value: Value, key: str) -> int:
        field = name or key
        if isinstance(value.data, str):
            return _parsed_duration(value, value.data, f"error parsing {field}: ")
        if seconds_warn:
            checker.warn(value, field, f"{field} should be converted to a duration")
        return integer(checker, value, key) * SECOND_NS

    return read


def duration_or(default_ns: int, name: str = "") -> Reader:
    """A duration, of which 0 means the default; see `duration`."""
    read_plain = duration(name)

    def read(checker: Checker, value: Value, key: str) -> object:
        return read_plain(checker, value, key) or default_ns

    return read


def duration_text(checker: Checker, value: Value, key: str) -> int:
    """A duration in quotes."""
    return _parsed_duration(value, text(checker, value, key), "")


def _parsed_duration(value: Value, written: str, prefix: str) -> int:
    try:
        return parse_duration(written)
    except ValueError as error:
        raise refusal(value, f"{prefix}{error}") from None


def seconds(context: str) -> Reader:
    """A timeout in seconds, whole or not, or a duration in quotes; in nanoseconds."""

    def read(_checker: Checker, value: Value, _key: str) -> int:
        data = value.data
        if isinstance(data, str):
            return _parsed_duration(value, data, f"error parsing {context} config, 'timeout' ")
        if isinstance(data, (int, float)) and not isinstance(data, bool):
            return round(data * SECOND_NS)
        raise refusal(value, f"error parsing {context} config, 'timeout' wrong type")

    return read


_STORAGE_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def storage_size(name: str = "") -> Reader:
    """A size as a number, or as a text such as 64M."""

    def read(_checker: Checker, value: Value, key: str) -> int:
        data, field = value.data, name or key.lower()
        if isinstance(data, int) and not isinstance(data, bool):
            return data
        if not isinstance(data, str):
            raise refusal(value, f"{field} must be int64 or string")
        if not data:
            return 0
        number, unit = data[:-1], data[-1]
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", number):
            raise refusal(value, f"{field} strconv.ParseInt: parsing {quote(number)}: invalid syntax")
        if unit not in _STORAGE_UNITS:
            raise refusal(value, f"{field} sizes defined as strings must end in K, M, G, T")
        return int(number) * _STORAGE_UNITS[unit]

    return read


def choice(options: Mapping[str, object], message: str) -> Reader:
    """One of a few words.

    Args:
        options: word → value.
        message: what to say to any other; `{}` is the word.
    """

    def read(checker: Checker, value: Value, key: str) -> object:
        word = text(checker, value, key)
        if word not in options:
            raise refusal(value, message.format(word))
        return options[word]

    return read


def address(host_field: str = "host", port_field: str = "port") -> Reader:
    """`host:port` or a port alone; fills the two fields."""

    def read(_checker: Checker, value: Value, _key: str) -> dict[str, object]:
        data = value.data
        if isinstance(data, int) and not isinstance(data, bool):
            return {host_field: "", port_field: data}
        if not isinstance(data, str):
            raise refusal(value, f"expected port or host:port, got {go_type(value)}")
        split = split_host_port(data)
        if split is None:
            raise refusal(value, f"could not parse address string {quote(data)}")
        host, port = split
        if not re.fullmatch(r"[+-]?[0-9]{1,9}", port):
            raise refusal(value, f"could not parse port {quote(port)}")
        return {host_field: host, port_field: int(port)}

    return read


def text_list(what: str) -> Reader:
    """A text, or an array of texts. Each entry that is none is an error of its own."""

    def read(checker: Checker, value: Value, _key: str) -> tuple[str, ...]:
        words = []
        for entry in _entries(value, what):
            if isinstance(entry.data, str):
                words.append(entry.data)
            else:
                checker.error(refusal(entry, f"error parsing {what}: unsupported type in array {go_type(entry)}"))
        return tuple(words)

    return read


def strict_text_list(what: str, one_of: str = "") -> Reader:
    """The same, but the first wrong entry refuses the whole; `one_of`: for lists where it is called a wrong token."""

    def read(_checker: Checker, value: Value, _key: str) -> tuple[str, ...]:
        words = []
        for entry in _entries(value, what):
            if not isinstance(entry.data, str):
                if one_of:
                    raise refusal(
                        value, f"error parsing {what}: unsupported type *conf.token where {one_of} is expected"
                    )
                raise refusal(entry, f"error parsing {what}: unsupported type in array {go_type(entry)}")
            words.append(entry.data)
        return tuple(words)

    return read


def _entries(value: Value, what: str) -> Sequence[Value]:
    """The entries of an array, or the one that stands for it."""
    if isinstance(value.data, str):
        return [value]
    if not isinstance(value.data, list):
        raise refusal(value, f"error parsing {what}: unsupported type {go_type(value)}")
    return value.data


def map_of_text(message: str) -> Reader:
    """A map whose values are texts. `{}` in the message is the type found instead of a map."""

    def read(checker: Checker, value: Value, key: str) -> dict[str, str]:
        if not isinstance(value.data, dict):
            raise refusal(value, message.format(go_type(value)))
        return {name: text(checker, entry, key) for name, entry in value.data.items()}

    return read


def urls(what: str) -> Reader:
    """An array of URLs without duplicates."""

    def read(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
        if not isinstance(value.data, list):
            raise wrong_type(value, "[]interface {}")
        found: dict[str, None] = {}
        for entry in value.data:
            url = text(checker, entry, key)
            if url in found:
                checker.warn(entry, url, f"Duplicate {what} entry detected")
            found[checked_url(entry, url, what)] = None
        return tuple(found)

    return read


_URL_REFUSED = re.compile(r"[\x00-\x20\x7f]|%(?![0-9a-fA-F]{2})")


def checked_url(value: Value, url: str, what: str) -> str:
    """The URL without blanks around it.

    Raises:
        ConfigError: it cannot be parsed.
    """
    from urllib.parse import urlsplit  # only files with remotes or routes need it

    trimmed = url.strip()
    try:
        port = urlsplit(trimmed).port  # raises if it is not a number
        valid = _URL_REFUSED.search(trimmed) is None and (port is None or port <= 65_535)
    except ValueError:
        valid = False
    if not valid:
        raise refusal(value, f"error parsing {what} url [{quote(trimmed)}]")
    return trimmed


# --- kinds for tables ----------------------------------------------------------------------------------------------

STRING: Final[Kind] = ("string", text)
BOOLEAN: Final[Kind] = ("boolean", boolean)
INTEGER: Final[Kind] = ("integer", integer)
INT32: Final[Kind] = ("integer", int32)
SIZE: Final[Kind] = ("size", integer)
DURATION: Final[Kind] = ("duration", duration())
LISTEN: Final[Kind] = ("host:port or port", address())
WRITE_TIMEOUT: Final[Kind] = (
    "`default`, `close` or `retry`",
    choice(
        {word: word for word in ("default", "close", "retry")},
        "write_timeout must be 'default', 'close' or 'retry'",
    ),
)

ADDRESS_KEYS: Final = (
    Key("listen", LISTEN, "Address and port.", field=""),
    Key("host net", STRING, "Address."),
    Key("port", INTEGER, "Port; -1 lets the system choose."),
)
"""Where a listener is, for the table of its block."""
