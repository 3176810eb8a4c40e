"""The keys of what accounts share and map: `exports`, `imports`, `mappings`.

Each entry is checked by itself here; what accounts say about each other is checked in `sharing`.
"""

from __future__ import annotations

import re
from typing import Final

from slipstream.config.account_options import (
    ExportOptions,
    ImportOptions,
    LatencyOptions,
    MappingDestination,
    MappingOptions,
)
from slipstream.config.checker import (
    Checker,
    Key,
    KeyTable,
    Reader,
    go_type,
    quote,
    read_map,
    refusal,
    require_map,
    wrong_type,
)
from slipstream.config.durations import parse_duration
from slipstream.config.parser import Value
from slipstream.config.readers import BOOLEAN, INTEGER, STRING, text
from slipstream.config.sharing import mapping_problem
from slipstream.config.subject_rules import is_valid_subject
from slipstream.errors import ConfigError
from slipstream.limits import SERVICE_LATENCY_SAMPLING

__all__ = [
    "EXPORT",
    "IMPORT",
    "LATENCY",
    "MAPPING_DESTINATION",
    "exports",
    "imports",
    "mappings",
    "percent",
]

_number = re.compile(r"[+-]?[0-9]{1,9}").fullmatch


# --- exports ---------------------------------------------------------------------------------------------------------


def _entries(what: str, read_entry: Reader) -> Reader:
    """An array, each entry read by itself."""

    def read(checker: Checker, value: Value, key: str) -> tuple[object, ...]:
        if not isinstance(value.data, list):
            raise refusal(value, f"{what} should be an array, got {go_type(value)}")
        found = []
        for entry in value.data:
            before = len(checker.errors)
            try:
                result = read_entry(checker, entry, key)
            except ConfigError as error:
                checker.error(error)
                continue
            if result is not None and len(checker.errors) == before:
                found.append(result)
        return tuple(found)

    return read


def _subject_of(kind: str) -> Reader:
    def read(_checker: Checker, value: Value, _key: str) -> str:
        if not isinstance(value.data, str):
            raise refusal(value, f"Expected {kind} name to be string, got {go_type(value)}")
        return value.data

    return read


_RESPONSE_TYPES: Final = {
    "single": "single",
    "singleton": "single",
    "stream": "stream",
    "chunk": "chunked",
    "chunked": "chunked",
}


def _response_type(_checker: Checker, value: Value, _key: str) -> str:
    if not isinstance(value.data, str):
        raise refusal(value, f"Expected response type to be string, got {go_type(value)}")
    if value.data.lower() not in _RESPONSE_TYPES:
        raise refusal(value, f"Unknown response type: {quote(value.data)}")
    return _RESPONSE_TYPES[value.data.lower()]


def _response_threshold(_checker: Checker, value: Value, _key: str) -> int:
    wanted = "Expected response threshold to be a parseable time duration"
    if not isinstance(value.data, str):
        raise refusal(value, f"{wanted}, got {go_type(value)}")
    try:
        return parse_duration(value.data)
    except ValueError:
        raise refusal(value, f"{wanted}, got {quote(value.data)}") from None


def _account_list(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    if not isinstance(value.data, list):
        raise wrong_type(value, "[]interface {}")
    return tuple(text(checker, entry, key) for entry in value.data)


def percent(value: Value, bad_text: str, bad_type: str, bad_number: str) -> int:
    """A share in percent: 50 or "50%"."""
    data = value.data
    if isinstance(data, str):
        digits = data.removesuffix("%")
        if _number(digits) is None:
            raise refusal(value, bad_text.format(digits))
        data = int(digits)
    if not isinstance(data, int) or isinstance(data, bool):
        raise refusal(value, bad_type.format(go_type(value)))
    if not 1 <= data <= 100:
        raise refusal(value, bad_number.format(data))
    return data


def _latency_sampling(_checker: Checker, value: Value, _key: str) -> int:
    if isinstance(value.data, str) and value.data.strip().lower() == "headers":
        return 0
    return percent(
        value,
        'Failed to parse latency sample: strconv.Atoi: parsing "{}": invalid syntax',
        "Expected latency sample to be a string or map/struct, got {}",
        "bad sampling percentage, should be 1-100",
    )


def _latency_subject(_checker: Checker, value: Value, _key: str) -> str:
    if not isinstance(value.data, str):
        raise refusal(value, "Expected latency subject to be a string, got string")
    return value.data


def _latency(checker: Checker, value: Value, _key: str) -> LatencyOptions:
    if isinstance(value.data, str):
        return LatencyOptions(value.data)
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected latency entry to be a map/struct or string, got {go_type(value)}")
    fields = read_map(checker, value, LATENCY)
    if "subject" not in fields:
        raise refusal(value, "Latency subject required, but missing")
    return LatencyOptions(**{"sampling": SERVICE_LATENCY_SAMPLING, **fields})  # type: ignore[arg-type]


LATENCY: Final = KeyTable(
    Key(
        "sampling",
        ("percent or `headers`", _latency_sampling),
        "Share of requests that are measured; `headers` lets trace headers of the request decide.",
        reloadable=True,
    ),
    Key("subject", ("subject", _latency_subject), "Where measurements are published.", reloadable=True),
)

EXPORT: Final = KeyTable(
    Key("stream", ("subject", _subject_of("stream")), "Subject whose messages others may receive.", reloadable=True),
    Key("service", ("subject", _subject_of("service")), "Subject others may send requests to.", reloadable=True),
    Key("accounts", ("list of accounts", _account_list), "Who may import it; everybody if missing.", reloadable=True),
    Key(
        "response_type response",
        ("`single`, `stream` or `chunked`", _response_type),
        "How many answers a request of the service has.",
        reloadable=True,
    ),
    Key(
        "response_threshold threshold response_max_time response_time",
        ("duration", _response_threshold),
        "How long answers of the service are waited for.",
        field="response_threshold_ns",
        reloadable=True,
    ),
    Key("latency", ("subject or map", _latency), "Measure the latency of the service.", reloadable=True),
    Key(
        "account_token_position",
        INTEGER,
        "Token of the subject, from 1, that must be the name of the importing account.",
        reloadable=True,
    ),
    Key("allow_trace", BOOLEAN, "Message traces may cross into this account.", reloadable=True),
)


def _export(checker: Checker, value: Value, _key: str) -> ExportOptions | None:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Export Items should be a map with type entry, got {go_type(value)}")
    fields = read_map(checker, value, EXPORT)
    kind = _kind_of(value, fields, both="Detected {0} {1} but already saw a {2}")
    if kind is None:
        return None
    if kind == "stream":
        for name, entry in value.data.items():
            key = EXPORT.find(name)
            canonical = key.names[0] if key else ""
            if canonical in ("response_type", "response_threshold"):
                raise refusal(entry, "Detected response directive on non-service")
            if canonical in ("latency", "allow_trace"):
                raise refusal(entry, f"Detected {canonical} directive on non-service")
    subject = fields.pop(kind)
    return ExportOptions(kind=kind, subject=subject, **fields)  # type: ignore[arg-type]  # the table names its fields


exports: Final = _entries("Exports", _export)


def _kind_of(value: Value, fields: dict[str, object], both: str) -> str | None:
    """Whether an entry is about a stream or a service; None if about neither, which nats-server ignores."""
    if "stream" in fields and "service" in fields:
        names = [name.lower() for name in require_map(value) if name.lower() in ("stream", "service")]
        second = next(entry for name, entry in require_map(value).items() if name.lower() == names[1])
        raise refusal(second, both.format(names[1], quote(str(second.plain())), names[0]))
    return "stream" if "stream" in fields else "service" if "service" in fields else None


# --- imports ---------------------------------------------------------------------------------------------------------

_SHARED: Final = KeyTable(
    Key("account", STRING, "Account that exports it.", reloadable=True),
    Key("subject", STRING, "Subject in that account.", reloadable=True),
)


def _shared(kind: str) -> Reader:
    """`{account: NAME, subject: SUBJECT}` of an import."""

    def read(checker: Checker, value: Value, _key: str) -> dict[str, object]:
        if not isinstance(value.data, dict):
            raise refusal(value, f"{kind} entry should be an account map, got {go_type(value)}")
        fields = read_map(checker, value, _SHARED)
        if not fields.get("account") or not fields.get("subject"):
            raise refusal(value, "Expect an account name and a subject")
        return fields

    return read


IMPORT: Final = KeyTable(
    Key("stream", ("map of account and subject", _shared("Stream")), "Messages to receive.", reloadable=True),
    Key("service", ("map of account and subject", _shared("Service")), "Service to use.", reloadable=True),
    Key("prefix", STRING, "Streams: tokens put before the subject.", reloadable=True),
    Key("to", STRING, "Local subject, if it is not the same.", reloadable=True),
    Key("share", BOOLEAN, "Services: tell the exporting account who asked.", reloadable=True),
    Key("allow_trace", BOOLEAN, "Streams: message traces may cross into this account.", reloadable=True),
)


def _import(checker: Checker, value: Value, _key: str) -> ImportOptions | None:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Import Items should be a map with type entry, got {go_type(value)}")
    before = len(checker.errors)
    fields = read_map(checker, value, IMPORT)
    kind = _kind_of(value, fields, both="Detected {0} but already saw a {2}")
    if kind is None or len(checker.errors) > before:
        return None
    if kind == "service" and "allow_trace" in fields:
        raise refusal(value, "Detected allow_trace directive on a non-stream")
    if kind == "stream" and fields.get("prefix") and fields.get("to"):
        raise refusal(value, "Stream import can not have a 'prefix' and a 'to' property")
    shared = fields.pop(kind)
    assert isinstance(shared, dict)
    return ImportOptions(kind=kind, **shared, **fields)  # type: ignore[arg-type]  # the table names its fields


def imports(checker: Checker, value: Value, key: str) -> tuple[ImportOptions, ...]:
    found = _entries("Imports", _import)(checker, value, key)
    assert isinstance(found, tuple)
    seen: dict[tuple[str, str], ImportOptions] = {}
    unique = []
    for entry in found:
        name = (entry.account, entry.to or entry.subject)
        if entry.kind == "service" and name in seen:
            message = "Duplicate service import subject {}, previously used in import for account {}, subject {}"
            previous = seen[name]
            checker.error(
                refusal(value, message.format(quote(name[1]), quote(previous.account), quote(previous.subject)))
            )
            continue
        if entry.kind == "service":
            seen[name] = entry
        unique.append(entry)
    return tuple(unique)


# --- mappings --------------------------------------------------------------------------------------------------------


def _weight(_checker: Checker, value: Value, _key: str) -> int:
    data = value.data
    if isinstance(data, str):
        digits = data.removesuffix("%")
        if _number(digits) is None:
            raise refusal(value, f"Invalid weight {quote(digits)} for mapping destination")
        data = int(digits)
    if not isinstance(data, int) or isinstance(data, bool):
        raise refusal(value, f"Unknown entry type for weight of {value.plain()}")
    if not 0 <= data <= 100:
        raise refusal(value, f"Invalid weight {data} for mapping destination")
    return data


MAPPING_DESTINATION: Final = KeyTable(
    Key("destination dest", STRING, "Subject messages are mapped to.", reloadable=True),
    Key("weight", ("percent", _weight), "Share of the messages; required.", reloadable=True),
    Key("cluster", STRING, "Only on servers of this cluster.", reloadable=True),
    unknown="Unknown field {} for mapping destination",
)


def _destination(checker: Checker, value: Value) -> MappingDestination | None:
    if not isinstance(value.data, dict):
        checker.error(refusal(value, "Expected an entry for the mapping destination"))
        return None
    before = len(checker.errors)
    fields = {"destination": "", **read_map(checker, value, MAPPING_DESTINATION)}
    if len(checker.errors) > before:
        return None
    if "weight" not in fields:
        subject = quote(str(fields["destination"]))
        checker.error(refusal(value, f"Missing weight for mapping destination {subject}"))
        return None
    return MappingDestination(**fields)  # type: ignore[arg-type]  # the table names its fields


def mappings(checker: Checker, value: Value, _key: str) -> tuple[MappingOptions, ...]:
    """A map from subject to destination: a subject, a weighted destination, or an array of those."""
    found = []
    for source, entry in require_map(value).items():
        if not is_valid_subject(source):
            checker.error(refusal(value, f"Subject {quote(source)} is not a valid subject"))
            continue
        destinations: list[MappingDestination | None]
        what = f"Error adding mapping for {quote(source)}"
        if isinstance(entry.data, str):
            destinations = [MappingDestination(entry.data)]
            what += f" to {quote(entry.data)}"
        elif isinstance(entry.data, list):
            destinations = [_destination(checker, item) for item in entry.data]
        else:
            destinations = [_destination(checker, entry)]
        good = tuple(destination for destination in destinations if destination is not None)
        if len(good) < len(destinations):
            continue
        mapping = MappingOptions(source, good)
        problem = mapping_problem(mapping, checker.check_mapping)
        if problem is not None:
            checker.error(refusal(entry, f"{what} : {problem}"))
            continue
        found.append(mapping)
    return tuple(found)
