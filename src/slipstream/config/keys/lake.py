"""The keys of the block `lake`."""

from __future__ import annotations

from typing import Final

from slipstream.config.checker import Checker, Key, KeyTable, Reader, go_type, quote, read_map, refusal
from slipstream.config.lake_options import LakeOptions
from slipstream.config.lake_secrets import location_problem, secret_property
from slipstream.config.limits import LAKE_BLOCKS_MAX, LAKE_EVERY_MIN_NS, LAKE_FILE_BYTES_MIN
from slipstream.config.parser import Value
from slipstream.config.readers import (
    BOOLEAN,
    STRING,
    choice,
    duration,
    integer,
    map_of_text,
    storage_size,
    text_list,
)
from slipstream.units import SECOND_NS

__all__ = ["LAKE", "lake"]

_PARTITIONS: Final = ("day", "hour", "subject")


def lake(checker: Checker, value: Value, _key: str) -> tuple[LakeOptions, ...]:
    """One block, or a list of them: a process each, for accounts or places of their own."""
    blocks = value.data if isinstance(value.data, list) else [value]
    if len(blocks) > LAKE_BLOCKS_MAX:
        raise refusal(value, f"at most {LAKE_BLOCKS_MAX} blocks of lake: each is a process")
    return tuple(_one(checker, block) for block in blocks)


def _one(checker: Checker, value: Value) -> LakeOptions:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected lake to be a map or a list of maps, got {go_type(value)}")
    errors = len(checker.errors)
    fields = read_map(checker, value, LAKE)
    if not fields.get("location"):
        if len(checker.errors) == errors:
            raise refusal(value, "lake has no location for its tables")
        fields["location"] = ""
    options = LakeOptions(**fields)  # type: ignore[arg-type]  # the table names its fields
    for problem in _problems(options):
        raise refusal(value, problem)
    return options


def _problems(options: LakeOptions) -> list[str]:
    found = [problem] if (problem := location_problem(options.location)) else []
    if options.format == "delta" and (options.catalog or options.partition or options.namespace != "streams"):
        found.append("catalog, namespace and partition of lake are for the format iceberg")
    if options.dead_letters and not options.columns:
        found.append("dead_letters of lake go with columns")
    if options.columns and (len(options.streams) != 1 or "*" in options.streams[0]):
        found.append("columns of lake go with one stream")
    ways = (bool(options.user), bool(options.token), bool(options.credentials), bool(options.nkey_file))
    if sum(ways) > 1:
        found.append("lake logs in with one of user, token, credentials and nkey_file")
    if options.key_file and not options.cert_file:
        found.append("key_file of lake needs cert_file")
    return found


def _at_least(read_number: Reader, least: int, words: str) -> Reader:
    def read(checker: Checker, value: Value, key: str) -> int:
        number = read_number(checker, value, key)
        if not isinstance(number, int) or number < least:
            raise refusal(value, f"Expected {words} at least for {quote(key)}, got {value.plain()}")
        return number

    return read


def _partition(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    names = text_list("partition")(checker, value, key)
    assert isinstance(names, tuple)
    for name in names:
        if name not in _PARTITIONS:
            raise refusal(value, f"partition is one or more of {', '.join(_PARTITIONS)}, got {quote(name)}")
    return names


def _catalog(checker: Checker, value: Value, key: str) -> dict[str, str]:
    properties = map_of_text("Expected catalog to be a map, got {}")(checker, value, key)
    assert isinstance(properties, dict)
    if name := secret_property(properties):
        raise refusal(value, f"{name} is a secret: it belongs into the server's environment, as for pyiceberg")
    return properties


LAKE: Final = KeyTable(
    Key("location", STRING, "Directory or URL below which each stream has its table."),
    Key(
        "format",
        (
            "`delta` or `iceberg`",
            choice({"delta": "delta", "iceberg": "iceberg"}, "format of lake is delta or iceberg, got {}"),
        ),
        "Format of the tables.",
    ),
    Key("streams stream", ("list of strings", text_list("streams")), "Names of streams, or patterns with `*`."),
    Key("catalog", ("map of strings", _catalog), "Iceberg: properties of pyiceberg's catalogue; SQLite if empty."),
    Key("namespace", STRING, "Iceberg: namespace of the tables."),
    Key("partition", ("list of `day`, `hour`, `subject`", _partition), "Iceberg: partitions of new tables."),
    Key(
        "columns",
        STRING,
        "Iceberg, one stream: JSON members as columns, such as `id bigint`; or `schema`.",
    ),
    Key("dead_letters", STRING, "Subject for payloads that do not fit the columns."),
    Key(
        "every",
        ("duration", _at_least(duration(), LAKE_EVERY_MIN_NS, "100ms")),
        "Time between commits.",
        field="every_ns",
    ),
    Key(
        "file_size",
        ("size", _at_least(storage_size(), LAKE_FILE_BYTES_MIN, "64K")),
        "Bytes of messages in a file at most.",
    ),
    Key("compact_files", ("integer", _at_least(integer, 0, "0")), "Small files put together; 0: never."),
    Key(
        "keep",
        ("duration", _at_least(duration(), SECOND_NS, "1s")),
        "How long older versions can be read.",
        field="keep_ns",
    ),
    Key("accept_gap", BOOLEAN, "Go on when messages were removed before they were written."),
    Key("user username", STRING, "User whose account's streams are written."),
    Key("password pass", STRING, "Password of the user."),
    Key("token", STRING, "Token instead of a user."),
    Key("credentials creds", STRING, "File with the JWT and the key of the user."),
    Key("nkey_file", STRING, "File with the seed of the user's nkey."),
    Key("url", STRING, "Address of this server as its certificate has it; by default where it listens."),
    Key("ca_file", STRING, "Certificates that the server's is checked with."),
    Key("cert_file", STRING, "Certificate of the user, where the server asks for one."),
    Key("key_file", STRING, "Its key."),
)
