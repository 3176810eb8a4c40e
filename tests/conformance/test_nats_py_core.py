"""nats-py against either server: publish, subscribe, queues, requests, headers, drain, flush, limits."""

from __future__ import annotations

import asyncio

import nats.errors
import pytest
from nats.aio.msg import Msg

from support.nats_py import Recorder, connected, run, settle
from support.servers import Launcher


def test_publish_and_subscribe(launcher: Launcher) -> None:
    async def scenario() -> None:
        async with connected(launcher()) as client:
            subscription = await client.subscribe("greet.*")
            await client.publish("greet.joe", b"hello", reply="answer")
            message = await subscription.next_msg(timeout=5)
            assert (message.subject, message.data, message.reply) == ("greet.joe", b"hello", "answer")

    run(scenario)


def test_publisher_and_subscriber_on_two_connections(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher()
        async with connected(server) as reader, connected(server) as writer:
            received = Recorder()
            await reader.subscribe("two.>", cb=received.add)
            await settle(reader)
            for index in range(1000):
                await writer.publish(f"two.{index}", str(index).encode())
            await settle(writer)
            messages = await received.wait_for(1000)
            assert [message.data for message in messages] == [str(index).encode() for index in range(1000)]

    run(scenario)


def test_wildcards(launcher: Launcher) -> None:
    async def scenario() -> None:
        async with connected(launcher()) as client:
            recorders = {pattern: Recorder() for pattern in ("w.a.b", "w.*.b", "w.>", "*.a.*")}
            for pattern, recorder in recorders.items():
                await client.subscribe(pattern, cb=recorder.add)
            for subject in ("w.a.b", "w.x.b", "w.a.c", "w.a", "x.a.y"):
                await client.publish(subject)
            await settle(client)
            await recorders["*.a.*"].wait_for(3)
            subjects = {pattern: [message.subject for message in found.items] for pattern, found in recorders.items()}
            assert subjects == {
                "w.a.b": ["w.a.b"],
                "w.*.b": ["w.a.b", "w.x.b"],
                "w.>": ["w.a.b", "w.x.b", "w.a.c", "w.a"],
                "*.a.*": ["w.a.b", "w.a.c", "x.a.y"],
            }

    run(scenario)


def test_queue_group_shares_messages(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher()
        async with connected(server) as one, connected(server) as two, connected(server) as writer:
            counts = [0, 0]
            total = Recorder()

            async def first(message: Msg) -> None:
                counts[0] += 1
                await total.add(message)

            async def second(message: Msg) -> None:
                counts[1] += 1
                await total.add(message)

            await one.subscribe("jobs", queue="workers", cb=first)
            await two.subscribe("jobs", queue="workers", cb=second)
            await settle(one)
            await settle(two)
            for _ in range(400):
                await writer.publish("jobs", b"x")
            await settle(writer)
            await total.wait_for(400)
            assert sum(counts) == 400
            assert min(counts) > 100

    run(scenario)


def test_request_and_reply(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher()
        async with connected(server) as service, connected(server) as client:

            async def answer(message: Msg) -> None:
                await message.respond(b"you said " + message.data)

            await service.subscribe("say", cb=answer)
            await settle(service)
            answers = await asyncio.gather(*[client.request("say", str(n).encode(), timeout=5) for n in range(50)])
            assert [reply.data for reply in answers] == [b"you said %d" % n for n in range(50)]
            old = await client.request("say", b"old", timeout=5, old_style=True)
            assert old.data == b"you said old"

    run(scenario)


def test_request_nobody_answers(launcher: Launcher) -> None:
    async def scenario() -> None:
        async with connected(launcher()) as client:
            with pytest.raises(nats.errors.NoRespondersError):
                await client.request("nobody.there", b"?", timeout=5)
            await client.subscribe("silent", cb=Recorder().add)
            with pytest.raises(nats.errors.TimeoutError):
                await client.request("silent", b"?", timeout=0.05)

    run(scenario)


def test_headers(launcher: Launcher) -> None:
    async def scenario() -> None:
        async with connected(launcher()) as client:
            subscription = await client.subscribe("headed")
            await client.publish("headed", b"body", headers={"Trace": "abc", "Colour": "blue green"})
            message = await subscription.next_msg(timeout=5)
            assert message.data == b"body"
            assert message.headers is not None
            assert {**message.headers} == {"Trace": "abc", "Colour": "blue green"}

    run(scenario)


def test_unsubscribe_after_a_number_of_messages(launcher: Launcher) -> None:
    async def scenario() -> None:
        async with connected(launcher()) as client:
            received, rest = Recorder(), Recorder()
            limited = await client.subscribe("few", cb=received.add)
            await limited.unsubscribe(limit=3)
            await client.subscribe("few", cb=rest.add)
            for _ in range(10):
                await client.publish("few")
            await rest.wait_for(10)
            assert len(received.items) == 3

    run(scenario)


def test_drain_of_a_subscription_and_a_connection(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher()
        async with connected(server) as reader, connected(server) as writer:
            received = Recorder()
            subscription = await reader.subscribe("drained", cb=received.add)
            await settle(reader)
            for _ in range(200):
                await writer.publish("drained", b"x")
            await settle(writer)
            await subscription.drain()  # type: ignore[no-untyped-call]  # declared without types
            assert len(await received.wait_for(200)) == 200
            await reader.drain()
            assert reader.is_closed

    run(scenario)


def test_max_payload(launcher: Launcher) -> None:
    async def scenario() -> None:
        async with connected(launcher("max_payload: 512")) as client:
            assert client.max_payload == 512
            with pytest.raises(nats.errors.MaxPayloadError):
                await client.publish("big", b"x" * 513)
            subscription = await client.subscribe("big")
            await client.publish("big", b"x" * 512)
            assert len((await subscription.next_msg(timeout=5)).data) == 512

    run(scenario)


def test_large_messages(launcher: Launcher) -> None:
    async def scenario() -> None:
        async with connected(launcher()) as client:
            subscription = await client.subscribe("large")
            payload = bytes(range(256)) * 4096
            for _ in range(5):
                await client.publish("large", payload)
            for _ in range(5):
                assert (await subscription.next_msg(timeout=5)).data == payload

    run(scenario)


def test_what_the_client_learns_about_the_server(launcher: Launcher) -> None:
    async def scenario() -> None:
        async with connected(launcher("server_name: west"), name="reader") as client:
            assert client.client_id
            assert client.connected_url is not None
            assert client.connected_url.port == launcher("server_name: west").port
            assert client._server_info["server_name"] == "west"
            assert client.connected_server_version.major == 2

    run(scenario)


def test_no_echo(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher()
        async with connected(server, no_echo=True) as quiet, connected(server) as other:
            own, others = Recorder(), Recorder()
            await quiet.subscribe("echo", cb=own.add)
            await other.subscribe("echo", cb=others.add)
            await settle(other)
            await quiet.publish("echo", b"mine")
            await settle(quiet)
            await others.wait_for(1)
            await other.publish("echo", b"theirs")
            await own.wait_for(1)
            assert [message.data for message in own.items] == [b"theirs"]

    run(scenario)


def test_verbose_and_pedantic_client(launcher: Launcher) -> None:
    async def scenario() -> None:
        async with connected(launcher(), verbose=True, pedantic=True) as client:
            subscription = await client.subscribe("verbose")
            await client.publish("verbose", b"x")
            assert (await subscription.next_msg(timeout=5)).data == b"x"

    run(scenario)
