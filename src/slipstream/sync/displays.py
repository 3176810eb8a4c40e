"""What a notebook shows of streams, buckets and object stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from slipstream.notebook import ROWS_MAX, facts, never_fails, table

if TYPE_CHECKING:
    from slipstream.sync.jetstream import JetStream
    from slipstream.sync.kv import KeyValue
    from slipstream.sync.objects import ObjectBucket
    from slipstream.sync.streams import StreamHandle

__all__ = ["bucket_html", "objects_html", "stream_html", "streams_html"]

_SIZE_COLUMNS: Final = ("Messages", "Bytes", "Consumers")


@never_fails
def streams_html(jetstream: JetStream) -> str:
    """The streams of an account."""
    account = jetstream.account()
    infos = (stream.latest() for stream in jetstream.streams())
    rows = ((info["config"]["name"], _subjects(info), *_sizes(info["state"])) for info in infos)
    return table("Streams", ("Name", "Subjects", *_SIZE_COLUMNS), rows, int(account["streams"]))


@never_fails
def stream_html(stream: StreamHandle) -> str:
    """One stream."""
    info = stream.info()
    config, state = info["config"], info["state"]
    return facts(
        f"Stream {stream.name}",
        {
            "Description": config.get("description", ""),
            "Subjects": _subjects(info),
            "Storage": config["storage"],
            "Retention": config["retention"],
            **dict(zip(_SIZE_COLUMNS, _sizes(state), strict=True)),
            "First": f"{state['first_seq']:,} at {state['first_ts']}" if state["messages"] else "",
            "Last": f"{state['last_seq']:,} at {state['last_ts']}" if state["messages"] else "",
        },
    )


@never_fails
def bucket_html(bucket: KeyValue) -> str:
    """The keys of a bucket with their values."""
    rows = []
    for entry in bucket.newest():
        rows.append((entry.key, entry.value.decode(errors="replace"), entry.revision, entry.time))
        if len(rows) == ROWS_MAX:
            break
    total = bucket.status()["state"].get("num_subjects", 0)
    return table(f"Bucket {bucket.bucket}", ("Key", "Value", "Revision", "Time"), rows, int(total))


@never_fails
def objects_html(store: ObjectBucket) -> str:
    """The objects of a store."""
    found = store.list()
    rows = ((one.name, one.size, one.description) for one in found)
    return table(f"Object store {store.bucket}", ("Name", "Bytes", "Description"), rows, len(found))


def _sizes(state: dict[str, Any]) -> tuple[int, int, int]:
    return state["messages"], state["bytes"], state["consumer_count"]


def _subjects(info: dict[str, Any]) -> str:
    return ", ".join(info["config"].get("subjects") or [])
