"""What crosses a link between two servers, whatever layers it has."""

from __future__ import annotations

import asyncio

import nats

from support.leaf_world import DEADLINE, until

__all__ = ["exchange"]


async def exchange(clients: tuple[nats.NATS, nats.NATS]) -> None:
    """Small and large, even and uneven bytes arrive in order at the first of two clients."""
    bodies = [b"", b"x", b"abc" * 1_000, bytes(range(256)) * 400, b"\0" * 900_000, *(b"%d" % at for at in range(300))]
    there, here = clients
    got: list[bytes] = []

    async def take(message: nats.aio.msg.Msg) -> None:
        if message.subject == "known":
            await message.respond(b"")
        else:
            got.append(message.data)

    asked = [await there.subscribe(subject, cb=take) for subject in ("bodies", "known")]
    await there.flush()
    async with asyncio.timeout(DEADLINE):
        while not await is_answered(here):
            await asyncio.sleep(0.01)
    for body in bodies:
        await here.publish("bodies", body)
    await here.flush()
    await until(lambda: len(got) >= len(bodies))
    assert got == bodies
    for subscription in asked:
        await subscription.unsubscribe()
    await there.close()


async def is_answered(client: nats.NATS) -> bool:
    """Whether what was subscribed to behind the link is known here."""
    try:
        await client.request("known", b"", timeout=1)
    except nats.errors.Error:
        return False
    return True
