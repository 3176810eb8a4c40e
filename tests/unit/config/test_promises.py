"""Nothing that can be set is ignored: every key, flag, field and header has an effect that a test sees, or is refused,
or is said in the log to do nothing here.

The table is `tests/support/promises.txt`. What is new and not in it fails here, and so does a row whose test is gone or
no longer names what it is about, or whose text is not refused or not warned of any more.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from tools import gen_config_docs

import slipstream.jetstream
from slipstream.config.load import ConfigErrors
from slipstream.config.validate import problems, unsupported
from slipstream.jetstream.gojson.bind import GoStruct
from slipstream.protocol.info import ConnectInfo
from slipstream.server.process.flags import FLAGS, overrides, parse_flags
from slipstream.server.process.notices import notices
from support.config_loading import loaded

TESTS = Path(__file__).resolve().parents[2]
SOURCE = TESTS.parent / "src" / "slipstream"
_HEADER = re.compile(r"\b(?:Nats-[A-Z][A-Za-z-]*[A-Za-z]|KV-Operation)\b")
# What the server itself says; every answer of the API is compared with nats-server's.
SAID = frozenset(
    f"Nats-{name}"
    for name in (
        *("Num-Pending", "Pending-Messages", "Pending-Bytes", "Subject", "Sequence", "Time-Stamp", "UpTo-Sequence"),
        *("Last-Sequence", "Last-Stream", "Last-Consumer", "Msg-Size", "Stream", "Response-Type", "Consumer-Stalled"),
        *("Applied-Limit", "Wrong-Pin-Id", "Server-Xkey"),
        *("Expected", "Batch"),  # the beginning of several
    )
)
# Kept in files, or the answer to nobody's request.
STORED = frozenset({"StoredStream", "CounterValue", "LostStreamData"})


class Promise(NamedTuple):
    kind: str
    name: str
    verdict: str
    what: str


def _table() -> list[Promise]:
    lines = (TESTS / "support" / "promises.txt").read_text(encoding="utf-8").splitlines()
    rows = [Promise(*(part.strip() for part in line.split(" | ", 3))) for line in lines if line and line[0] != "#"]
    assert len({row[:2] for row in rows}) == len(rows), "a name is in the table twice"
    return rows


TABLE = _table()


def _config_keys() -> dict[str, frozenset[str]]:
    """Every key with all its names. A block that has one row of its own is one name."""
    blocks = {row.name for row in TABLE if row.kind == "config" and "." not in row.name}
    found: dict[str, frozenset[str]] = {}
    for block in gen_config_docs._BLOCKS:
        if block.title in blocks:
            found[block.title] = frozenset({block.title})
            continue
        for key in block.table.keys:
            names = {*key.names, key.field or key.names[0], (key.field or "").removesuffix("_ns")}
            found[f"{block.title}.{key.names[0]}"] = frozenset(names - {""})
    return found


@cache
def _fields() -> frozenset[str]:
    found = set()
    for module in pkgutil.walk_packages(slipstream.jetstream.__path__, "slipstream.jetstream."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, GoStruct):
                struct = value.name.removeprefix("server.") or "PullRequest"
                found |= {f"{struct}.{field.name}" for field in value.fields if struct not in STORED}
    # A request to create or change a stream is its configuration and one field more.
    config = {name.partition(".")[2] for name in found if name.startswith("StreamConfig.")}
    return frozenset(found - {f"StreamConfigRequest.{field}" for field in config})


def _headers() -> set[str]:
    texts = (
        path.read_text(encoding="utf-8")
        for folder in ("jetstream", "routing", "protocol", "kernels")
        for path in (SOURCE / folder).rglob("*.py*")
        if path.suffix in (".py", ".pyx")
    )
    found = {name for text in texts for name in _HEADER.findall(text)}
    return {name for name in found if not name.endswith("-")} - SAID


def _rows(kind: str) -> set[str]:
    return {row.name for row in TABLE if row.kind == kind}


def test_every_key_has_a_row() -> None:
    assert _rows("config") == _config_keys().keys()


def test_every_flag_is_a_key_or_has_a_row() -> None:
    twins = [flag for flag in FLAGS if flag.option]
    assert _rows("flag") == {flag.names[0] for flag in FLAGS} - {flag.names[0] for flag in twins}
    for flag in twins:
        value = {"string": "x", "integer": "7", "boolean": "true"}[flag.kind]
        for name in flag.names:
            assert overrides(parse_flags([f"--{name}={value}"])).keys() == {flag.option}


def test_every_field_of_connect_has_a_row() -> None:
    assert _rows("connect") == {field.encode_name for field in msgspec.structs.fields(ConnectInfo)}


def test_every_field_of_a_request_has_a_row() -> None:
    assert _rows("field") == _fields()


def test_every_header_has_a_row() -> None:
    assert _rows("header") == _headers()


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.verdict == "seen"], ids=lambda row: f"{row.kind} {row.name}"
)
def test_the_test_is_there_and_names_it(row: Promise) -> None:
    path, _, test = row.what.partition("::")
    text = (TESTS / path).read_text(encoding="utf-8").replace("\\n", "\n")
    if test:
        assert re.search(rf"^ *(?:async )?def {test}\(", text, re.MULTILINE), f"{row.what} is gone"
    names = _config_keys()[row.name] if row.kind == "config" else {row.name.rpartition(".")[2]}
    if row.kind == "flag":
        names = set(next(flag.names for flag in FLAGS if flag.names[0] == row.name))
    assert any(re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text) for name in names), (
        f"{path} does not name {names}"
    )


@pytest.mark.parametrize("row", [row for row in TABLE if row.verdict == "refused"], ids=lambda row: row.name)
def test_it_is_refused(row: Promise) -> None:
    try:
        options = loaded(row.what).options
    except ConfigErrors:
        return
    assert problems(options) or unsupported(options)


@pytest.mark.parametrize("row", [row for row in TABLE if row.verdict == "warned"], ids=lambda row: row.name)
def test_it_is_warned_of(row: Promise) -> None:
    options = loaded(row.what).options
    said = " ".join(text for level, text in notices(options) if level == "WRN")
    key = row.name.rpartition(".")[2]
    assert key in said or "Leaf nodes are not supported" in said


def test_there_is_no_other_verdict() -> None:
    assert {row.verdict for row in TABLE} == {"seen", "refused", "warned"}
