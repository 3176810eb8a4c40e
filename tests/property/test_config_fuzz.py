"""Whatever the bytes, a configuration is loaded or refused with a ConfigError; what is written is what is read."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from slipstream.config.dump import dump_options
from slipstream.config.durations import format_duration, parse_duration
from slipstream.config.keys.server import SERVER
from slipstream.config.load import Probes, load
from slipstream.config.parser import parse_file, parse_text
from slipstream.config.reload import ReloadPlan, diff
from slipstream.config.validate import problems, unsupported
from slipstream.errors import ConfigError
from slipstream.server.process.flags import FlagError, overrides, parse_flags

# Pieces that mean something to the scanner, so that random texts get past the first character.
_pieces = st.sampled_from(
    [
        *[
            "{",
            "}",
            "[",
            "]",
            "(",
            ")",
            ":",
            "=",
            ",",
            ";",
            "#",
            "//",
            "/",
            '"',
            "'",
            "\\",
            "\\x",
            "$",
            "a",
            "b:",
            "1",
            "1k",
            "1kb",
            "-",
            ".",
            "1.5",
            "1.2.3",
            "2016-01-01T00:00:00Z",
            "true",
            "$a",
            "$2a$",
            "٣",
            "é",
        ],
        *(" ", "\t", "\n", "\r\n", "\n)\n", "include ", "\0", "\u00a0", "\ud800", "\udcff"),
    ]
)
texts = st.lists(_pieces | st.text(max_size=3), max_size=30).map("".join)
key_names = st.sampled_from([name for key in SERVER.keys for name in key.names])


@given(texts)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_text(text, environment={"a": "$b", "b": "[1"}).plain()
    except ConfigError as error:
        assert str(error)
        assert error.line >= 0


@given(st.binary(max_size=200))
def test_any_file_is_parsed_or_refused(content: bytes) -> None:
    try:
        load(parse_file("x.conf", read=lambda _path: content, environment={}))
    except ConfigError as error:
        str(error).encode("utf-8", "backslashreplace")


# Values of every type, as JSON, which is a part of the language.
scalars = st.booleans() | st.integers(-(2**40), 2**40) | st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _as_config(value: object) -> str:
    """JSON, with blanks so that numbers end before brackets and control characters as this language escapes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} "
    if isinstance(value, str):
        return '"' + "".join(_escaped(char) for char in value) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(_as_config(entry) for entry in value) + "]"
    assert isinstance(value, dict)
    return "{" + ", ".join(f"{_quoted_key(key)}: {_as_config(entry)}" for key, entry in value.items()) + "}"


def _escaped(char: str) -> str:
    return {'"': '\\"', "\\": "\\\\"}.get(char) or (f"\\x{ord(char):02x}" if char < " " or char == "\x7f" else char)


def _quoted_key(key: str) -> str:
    return f"'{key}'" if '"' in key else f'"{key}"'


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\"'\0"), min_size=1), values, max_size=5)
)
def test_what_is_written_is_read(config: dict[str, object]) -> None:
    def keys_can_be_quoted(value: object) -> bool:
        if isinstance(value, list):
            return all(map(keys_can_be_quoted, value))
        if isinstance(value, dict):
            return all(
                not ('"' in key and "'" in key) and "\0" not in key and key.isprintable() and keys_can_be_quoted(entry)
                for key, entry in value.items()
            )
        return True

    if keys_can_be_quoted(config):
        text = "\n".join(f"{_quoted_key(key)} = {_as_config(value)}" for key, value in config.items())
        assert parse_text(text).plain() == config


@given(key_names, values)
def test_any_value_of_any_key_is_loaded_or_refused(key: str, value: object) -> None:
    try:
        parsed = parse_text(f"{key}: {_as_config(value)}\n", name="t.conf")
    except ConfigError:
        return
    probes = Probes(check_tls=lambda _tls: None, check_mapping=lambda _source, _destination: None)
    try:
        options = load(parsed, probes=probes).options
    except ConfigError as error:
        assert (error.file, error.line) == ("t.conf", 1) or not error.line
        return
    # What loads can be checked, compared and shown without surprises, too.
    problems(options)
    unsupported(options)
    json.loads(dump_options(options))
    assert diff(options, options) == ReloadPlan()


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_durations_survive(duration_ns: int) -> None:
    assert parse_duration(format_duration(duration_ns)) == duration_ns


@given(st.text(st.sampled_from("0123456789.smhnuµ-+ x"), max_size=12))
def test_any_duration_is_read_or_refused(text: str) -> None:
    try:
        parse_duration(text)
    except ValueError as error:
        assert str(error).startswith("time: ")


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))
def test_dates(moment: datetime) -> None:
    whole = moment.replace(microsecond=0)
    assert parse_text(f"a: {whole.isoformat()}Z").plain() == {"a": whole.replace(tzinfo=UTC)}


_flag_words = st.sampled_from(
    [
        "-p",
        "--port",
        "-D",
        "--debug=no",
        "-js",
        "-sd",
        "--cluster",
        "--routes",
        "--tls",
        "--tlscert",
        "-t",
        "--",
        "-",
        "x",
        "-p=1",
        "nats://a:1",
        "nats://[::1]:2",
        "nats://u:p@h:-1",
        "-1",
        "0x1",
        "=",
        "-=",
        "---",
        "a,b",
    ]
)


@given(st.lists(_flag_words | st.text(max_size=6), max_size=6))
def test_any_command_line_is_read_or_refused(arguments: list[str]) -> None:
    try:
        overrides(parse_flags(arguments))
    except FlagError as error:
        assert error.message
    except ConfigError as error:
        assert error.message
