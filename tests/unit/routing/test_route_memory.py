"""`disable_sublist_cache`: who gets what is found out for every message."""

from __future__ import annotations

import pytest

from support.hub_world import HubWorld


@pytest.mark.parametrize("remembers", [True, False])
def test_routes_are_remembered_unless_the_configuration_forbids_it(remembers: bool) -> None:
    world = HubWorld("" if remembers else "disable_sublist_cache: true")
    receiver, sender = world.connect(), world.connect()
    receiver.send(b"SUB orders.* 1\r\nSUB orders.us 2\r\n")
    for subject in (b"orders.us", b"orders.eu", b"orders.us"):
        sender.send(b"PUB %b 2\r\nhi\r\n" % subject)
    got = receiver.take()
    assert (got.count(b"MSG orders.us 1 "), got.count(b"MSG orders.us 2 "), got.count(b"MSG orders.eu 1 ")) == (2, 2, 1)
    receiver.send(b"UNSUB 2\r\n")
    sender.send(b"PUB orders.us 2\r\nhi\r\n")
    assert receiver.take().count(b"MSG orders.us") == 1
    interest = world.hub.accounts["$G"].interest
    assert (interest.cached_routes > 0) == remembers
