"""Removing what a batch has replaced: older objects of the same name, older entries of purged keys.

Clients leave that to a header (`Nats-Rollup`) that a staged message cannot have, so it is done after the commit.

Invariant: what goes is decided by what the server holds, not by what this run of the batch has staged. A newer
description makes the older ones of its name worthless, whoever wrote them, and so does the mark of a purge with the
entries below it. So it may be done again, after a commit that added nothing, or next to other writers, and is then
finished or without effect; where a crash prevents it, the next write of the name does it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from slipstream.bulk import BulkError
from slipstream.kernels.subjects.subject import is_valid_publish
from slipstream.spark.runtime.connection import Connection, retrying
from slipstream.spark.sink.options import SinkOptions

__all__ = ["remove_replaced"]

_NO_MESSAGE = 10037
_ASKED_SINGLY = 16  # subjects that are looked at without asking first which have older messages
_SUBJECTS_A_QUESTION = 256  # a server lists about as many subjects in the time of one question
_PURGE_MARK = b"KV-Operation: PURGE\r\n"


def remove_replaced(options: SinkOptions, subjects: Iterable[str]) -> None:
    """Remove what newer messages have replaced.

    Args:
        options: of the write.
        subjects: descriptions of objects that were written, or keys that were purged.
    """
    tidy = _tidy_object if options.target.kind == "object" else _tidy_key
    wanted = list(dict.fromkeys(subjects))
    if len(wanted) > _ASKED_SINGLY:
        wanted = retrying(options.reach, options.write_timeout_ns, lambda found: _with_older(found, options, wanted))
    for subject in wanted:

        def call(connection: Connection, subject: str = subject) -> None:
            tidy(connection, options, subject)

        retrying(options.reach, options.write_timeout_ns, call)


def _with_older(connection: Connection, options: SinkOptions, subjects: list[str]) -> list[str]:
    """Those of many subjects that may have more than one message, with few questions."""
    stream, name = options.target.one, options.target.names[0]
    call = f"STREAM.INFO.{stream}"
    if int(connection.request(call)["state"]["num_subjects"]) > _SUBJECTS_A_QUESTION * len(subjects):
        return subjects
    prefix = f"$O.{name}.M.>" if options.target.kind == "object" else f"$KV.{name}.>"
    counts: dict[str, int] = {}
    while True:
        page = connection.request(call, {"subjects_filter": prefix, "offset": len(counts)})
        found = page["state"].get("subjects") or {}
        known = len(counts)
        counts |= found
        if len(counts) == known or len(counts) >= int(page.get("total", 0)):
            return [subject for subject in subjects if counts.get(subject) != 1]


def _tidy_object(connection: Connection, options: SinkOptions, subject: str) -> None:
    """Leave the newest description of a name, and its chunks alone."""
    stream, store = options.target.one, options.target.names[0]
    newest = _get(connection, stream, {"last_by_subj": subject})
    if newest is None:
        return
    last, kept = newest["seq"], _chunks_of(newest)
    older = False
    found = _get(connection, stream, {"next_by_subj": subject, "seq": 1})
    while found is not None and found["seq"] < last:
        older = True
        chunks = _chunks_of(found)
        if chunks and chunks != kept:
            connection.request(f"STREAM.PURGE.{stream}", {"filter": f"$O.{store}.C.{chunks}"})
        found = _get(connection, stream, {"next_by_subj": subject, "seq": found["seq"] + 1})
    if older:  # last of all, for they name the chunks
        connection.request(f"STREAM.PURGE.{stream}", {"filter": subject, "seq": last})


def _tidy_key(connection: Connection, options: SinkOptions, subject: str) -> None:
    """Remove the entries of a key below the newest mark of a purge; what was put after it stays."""
    stream = options.target.one
    mark = 0
    found = _get(connection, stream, {"last_by_subj": subject})
    if found is not None and not _is_mark(found):
        found = _get(connection, stream, {"next_by_subj": subject, "seq": 1})
    while found is not None:
        if _is_mark(found):
            mark = found["seq"]
        found = _get(connection, stream, {"next_by_subj": subject, "seq": found["seq"] + 1})
    if mark:
        connection.request(f"STREAM.PURGE.{stream}", {"filter": subject, "seq": mark})


def _get(connection: Connection, stream: str, which: dict[str, object]) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = connection.request(f"STREAM.MSG.GET.{stream}", which)["message"]
    except BulkError as error:
        if error.err_code == _NO_MESSAGE:
            return None
        raise
    return found


def _chunks_of(message: dict[str, Any]) -> str:
    """The id of an object's chunks; empty if it has none, or is no object."""
    try:
        info = json.loads(base64.b64decode(message.get("data", "")))
    except ValueError:
        return ""
    nuid = info.get("nuid", "") if isinstance(info, dict) else ""
    return nuid if isinstance(nuid, str) and is_valid_publish(nuid.encode()) else ""  # a wildcard would purge others


def _is_mark(message: dict[str, Any]) -> bool:
    return _PURGE_MARK in base64.b64decode(message.get("hdrs", ""))
