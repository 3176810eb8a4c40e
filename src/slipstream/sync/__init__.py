"""NATS and JetStream for scripts, notebooks and tests: plain calls that return when it is done.

    with slipstream.connect("nats://127.0.0.1:4222") as client:
        jetstream = client.jetstream()
        jetstream.create_stream("ORDERS", subjects=["orders.>"])
        jetstream.publish("orders.us", b"42 apples")
        for message in jetstream.stream("ORDERS").read():
            print(message.seq, message.subject, message.data)

One thread uses a client at a time. Programs with an event loop use nats-py.
"""

from __future__ import annotations

from slipstream.client.options import ClientError, ClientTimeout, ConnectionLost, NoResponders, ServerRefused
from slipstream.sync.client import Client, Listener, connect
from slipstream.sync.consumers import PullConsumer
from slipstream.sync.errors import JetStreamRefusal, KeyExists, NoSuchItem, WrongRevision
from slipstream.sync.jetstream import JetStream, PubAck
from slipstream.sync.kv import KeyValue, KvEntry
from slipstream.sync.messages import Delivered, Msg
from slipstream.sync.objects import ObjectBucket, ObjectFacts
from slipstream.sync.streams import StreamHandle

__all__ = [
    "Client",
    "ClientError",
    "ClientTimeout",
    "ConnectionLost",
    "Delivered",
    "JetStream",
    "JetStreamRefusal",
    "KeyExists",
    "KeyValue",
    "KvEntry",
    "Listener",
    "Msg",
    "NoResponders",
    "NoSuchItem",
    "ObjectBucket",
    "ObjectFacts",
    "PubAck",
    "PullConsumer",
    "ServerRefused",
    "StreamHandle",
    "WrongRevision",
    "connect",
]
