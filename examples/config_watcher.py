"""Configuration in a key-value bucket: programs see changes at once, and editors cannot overwrite each other.

python examples/config_watcher.py
"""

from __future__ import annotations

import asyncio
import tempfile

import nats
from nats.js.errors import KeyWrongLastSequenceError
from nats.js.kv import KeyValue

import slipstream

LAST_LIMIT = b"250"


async def follow(bucket: KeyValue, settings: dict[str, bytes]) -> None:
    """Keep `settings` equal to the bucket, until the last change of this example was seen."""
    watcher = await bucket.watchall()
    async for change in watcher:
        if change is None:
            print("settings at start:", settings)
        elif change.operation is None:
            settings[change.key] = change.value or b""
            print(f"  {change.key} = {settings[change.key].decode()} (revision {change.revision})")
        else:
            settings.pop(change.key, None)
        if settings.get("limit.requests") == LAST_LIMIT:
            break
    await watcher.stop()  # type: ignore[no-untyped-call]


async def main() -> None:
    """A bucket, a program that follows it, and two people who edit."""
    with tempfile.TemporaryDirectory() as directory:
        async with slipstream.Server(port=0, store_dir=directory) as server:
            client = await nats.connect(server.url)
            bucket = await client.jetstream().create_key_value(bucket="CONFIG", history=10)
            await bucket.put("theme", b"dark")
            await bucket.put("limit.requests", b"100")
            settings: dict[str, bytes] = {}
            follower = asyncio.create_task(follow(bucket, settings))

            seen = await bucket.get("limit.requests")
            await bucket.update("limit.requests", b"200", last=seen.revision)
            try:
                await bucket.update("limit.requests", b"5", last=seen.revision)
            except KeyWrongLastSequenceError:
                print("the second editor had an old revision, and was told")
            await bucket.delete("theme")
            await bucket.put("limit.requests", LAST_LIMIT)

            await follower
            history = [entry.value for entry in await bucket.history("limit.requests")]
            await client.close()
    print("settings now:", settings, "history:", history)
    assert settings == {"limit.requests": LAST_LIMIT} and history == [b"100", b"200", b"250"]


if __name__ == "__main__":
    asyncio.run(main())
