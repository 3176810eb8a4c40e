"""An account that shuts down in the middle of bulk work: nothing is half done, and nothing goes on."""

from __future__ import annotations

import json

from slipstream.units import MINUTE_NS
from support.bulk_world import BulkWorld


def test_everything_stops() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.fill(500)
    reading = world.begin_read(credit=1, chunk_bytes=16 * 1024)
    part = world.stage([("s.1", b"", bytes(3000)) for _ in range(300)])
    begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 1})["id"]
    world.ports.jobs_held = True
    body = json.dumps({"txn": "T", "batch_id": 1, "parts": [part]}).encode()
    world.ports.route(b"$JS.API.BULK.COMMIT.S", b"_INBOX.c", None, body)
    world.ports.route(f"$JS.API.BULK.STAGE.S.{begun}.0".encode(), b"_INBOX.d", None, b"bytes")
    world.ports.settle()
    again = world.restart()
    world.ports.jobs_held = False
    world.ports.settle()
    world.ports.advance(10 * MINUTE_NS)
    assert len(reading.chunks) == 1 and not reading.status
    assert len(again.texts()) == 500
    done = again.commit(1, [part])
    assert (done["first_seq"], done["last_seq"]) == (501, 800)
