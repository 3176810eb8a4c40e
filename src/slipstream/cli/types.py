"""Parameter types and flags that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from slipstream.cli.human import parse_bytes, parse_duration

__all__ = [
    "DURATION",
    "HEADER",
    "SIZE",
    "Parsed",
    "edit_flags",
    "force_flag",
    "json_flag",
    "list_option",
    "names_flag",
    "pairs_option",
]

_F = TypeVar("_F", bound=Callable[..., Any])


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # takes no parameter before click 8.4


class Parsed(_ParamType):
    """A type that is read by a function raising ValueError."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a text; what is no text was read before."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _read_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or any(letter in text for letter in "\r\n"):
        raise ValueError(f"{text!r} is not a header such as Name:value")
    return name.strip(), value.strip()


def _read_pair(text: str) -> tuple[str, str]:
    for separator in ("=", ":"):
        name, found, value = text.partition(separator)
        if found and name:
            return name, value
    raise ValueError(f"{text!r} is not key=value")


DURATION: Final = Parsed("duration", parse_duration)
SIZE: Final = Parsed("bytes", parse_bytes)
HEADER: Final = Parsed("k:v", _read_header)
_PAIR: Final = Parsed("key=value", _read_pair)


def edit_flags(command: _F) -> _F:
    """How a configuration is changed: from a file, by hand, or only to see what would change."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Only show the differences."),
        click.option("--interactive", "-i", is_flag=True, help="Edit the configuration in $EDITOR."),
        click.option("--config", "config_file", metavar="FILE", help="Read the new configuration from a JSON file."),
    ):
        command = option(command)
    return command


def list_option(*names: str, **kwargs: Any) -> Callable[[_F], _F]:
    """An option that may be given several times, each time with values separated by commas or blanks."""

    def split(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> list[str]:
        return [word for text in value for word in text.replace(",", " ").split()]

    return click.option(*names, multiple=True, callback=split, **kwargs)


def pairs_option(*names: str, **kwargs: Any) -> Callable[[_F], _F]:
    """An option `key=value` that may be given several times."""

    def collect(_ctx: click.Context, _param: click.Parameter, value: tuple[tuple[str, str], ...]) -> dict[str, str]:
        return dict(value)

    return click.option(*names, multiple=True, type=_PAIR, callback=collect, **kwargs)


json_flag: Final = click.option("--json", "-j", "as_json", is_flag=True, help="Print JSON.")
force_flag: Final = click.option("--force", "-f", is_flag=True, help="Do not ask.")
names_flag: Final = click.option("--names", "-n", is_flag=True, help="Print only the names.")
