"""What a tenant makes the server hold is counted against that tenant: nothing is free because it is no message yet."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipstream.accounts.account import subscription_cost
from slipstream.jetstream.ports import AccountLimits
from slipstream.jetstream.stream.admission.dedup import ID_OVERHEAD_BYTES
from slipstream.protocol.texts import CloseReason
from slipstream.testing import ServerThread
from support.bulk_world import BulkWorld
from support.hub_world import HubWorld
from support.jetstream_world import World
from support.raw_client import RawClient

KIB = 1024
MIB = 1024 * KIB
SECOND_NS = 10**9
BOTH = AccountLimits(max_memory=MIB, max_storage=MIB)
TOO_MUCH = 10_002  # resource limits exceeded for account
TAKEN = None


def publish(world: World, payload: bytes, subject: str = "s.a", **lines: str) -> int | None:
    """The error code of a publish."""
    block = "NATS/1.0\r\n" + "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in lines.items()) + "\r\n"
    answer = world.request(subject, payload, block.encode() if lines else None)
    assert answer is not None
    said = json.loads(answer[1]) if answer[1] else {}
    return said["error"]["err_code"] if "error" in said else TAKEN


def held(world: World) -> int:
    return sum(budget.held_bytes for budget in world.account.budgets.values())


def staged(world: World) -> int:
    return sum(budget.staged_bytes for budget in world.account.budgets.values())


class TestBatches:
    """Open atomic batches: 364 MiB in an account of 1 MB."""

    def fill(self, world: World, batches: int) -> list[int | None]:
        answers = []
        for batch in range(batches):
            for seq in range(1, 100):
                lines = {"Nats_Batch_Id": str(batch), "Nats_Batch_Sequence": str(seq)}
                answers.append(publish(world, bytes(10 * KIB), **lines))
                if answers[-1] is not TAKEN:
                    break
        return answers

    def test_they_count_while_they_are_open(self) -> None:
        world = World(limits=BOTH)
        world.create(subjects=["s.>"], allow_atomic=True)
        answers = self.fill(world, 5)
        assert TOO_MUCH in answers
        assert held(world) <= MIB
        world.ports.advance(60 * SECOND_NS)
        assert held(world) == 0, "what timed out is given back"
        assert publish(world, b"x") is TAKEN

    def test_a_batch_that_fits_is_committed(self) -> None:
        world = World(limits=BOTH)
        world.create(subjects=["s.>"], allow_atomic=True)
        for seq in range(1, 60):
            lines = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": str(seq)}
            assert publish(world, bytes(10 * KIB), **lines) is TAKEN
        last = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "60", "Nats_Batch_Commit": "1"}
        assert publish(world, bytes(10 * KIB), **last) is TAKEN
        assert held(world) == 0

    def test_no_account_takes_what_others_need(self) -> None:
        """Accounts without limits of their own share the server's; one of them has half of it at most."""
        world = World(max_held_bytes=4 * MIB)
        world.create(subjects=["s.>"], allow_atomic=True)
        assert TOO_MUCH in self.fill(world, 5)
        assert held(world) <= MIB

    def test_a_stream_that_goes_takes_its_batches_along(self) -> None:
        world = World(limits=BOTH)
        world.create(subjects=["s.>"], allow_atomic=True)
        publish(world, bytes(10 * KIB), Nats_Batch_Id="b", Nats_Batch_Sequence="1")
        assert held(world) > 10 * KIB
        world.api("STREAM.DELETE.S")
        assert held(world) == 0


class TestMessageIds:
    """Message ids outlive their messages: 363 MiB counted as 60 kB."""

    def test_they_count_for_their_whole_window(self) -> None:
        world = World(limits=BOTH)
        world.create(subjects=["s.>"], max_msgs=1)
        codes = [publish(world, b"", Nats_Msg_Id=f"{n}-" + "x" * 10_000) for n in range(200)]
        assert TOO_MUCH in codes and codes.count(TAKEN) < 110
        assert held(world) <= MIB
        assert publish(world, b"x") is not TAKEN or held(world) <= MIB
        world.ports.advance(121 * SECOND_NS)
        assert held(world) == 0
        assert publish(world, b"", Nats_Msg_Id="later") is TAKEN

    def test_small_ones_cost_what_they_take(self) -> None:
        world = World(limits=BOTH)
        world.create(subjects=["s.>"], max_msgs=1)
        for n in range(100):
            publish(world, b"", Nats_Msg_Id=f"{n:04}")
        assert held(world) == 100 * (4 + ID_OVERHEAD_BYTES)

    def test_those_of_batches_too(self) -> None:
        world = World(limits=BOTH)
        world.create(subjects=["s.>"], max_msgs=1, allow_atomic=True)
        codes = []
        for n in range(150):
            lines = {"Nats_Batch_Id": f"b{n}", "Nats_Batch_Sequence": "1", "Nats_Batch_Commit": "1"}
            codes.append(publish(world, b"", **lines, Nats_Msg_Id=f"{n}-" + "x" * 10_000))
        assert codes[0] is TAKEN and codes[-1] == TOO_MUCH
        assert held(world) <= MIB

    def test_after_a_fault_they_are_counted_anew(self) -> None:
        world = World(limits=BOTH)
        world.create(subjects=["s.>"])
        for n in range(10):
            publish(world, b"", Nats_Msg_Id=str(n))
        before = held(world)
        world.account.streams["S"]._ids.rebuild(world.account.streams["S"].config)
        assert held(world) == before > 0


class TestStagedParts:
    """Parts that wait for a bulk commit: 131 MB on the disk of an account of 1 MB."""

    def world(self) -> BulkWorld:
        world = BulkWorld()
        for budget in world.account.budgets.values():
            budget.set_limit(MIB)
        world.create(subjects=["s.>"], storage="file")
        return world

    def test_they_count_until_they_are_committed_or_gone(self) -> None:
        world = self.world()
        errors: list[Any] = []
        for n in range(20):
            try:
                world.stage([("s.x", b"", bytes(100 * KIB))], txn=f"T{n}")
            except AssertionError as error:
                errors.append(error)
        assert errors and staged(world) <= MIB
        for n in range(20):
            world.api("BULK.ABORT.S", {"txn": f"T{n}"})
        world.ports.settle()
        assert staged(world) == 0

    def test_a_commit_counts_once(self) -> None:
        world = self.world()
        part = world.stage([("s.x", b"", bytes(100 * KIB)) for _ in range(6)], txn="T")
        assert staged(world) > 600 * KIB
        answer = world.commit(1, [part], "T")
        assert "error" not in answer, answer
        world.ports.settle()
        assert staged(world) == 0
        assert publish(world, bytes(200 * KIB)) is TAKEN
        assert publish(world, bytes(300 * KIB)) == TOO_MUCH


class TestSubscriptions:
    """Deep patterns take 88 times the bytes they are sent as."""

    @pytest.mark.parametrize("tokens", [1, 100, 1_000])
    def test_an_account_has_its_share(self, tokens: int) -> None:
        world = HubWorld()
        world.hub.subscription_bytes_max = MIB
        client = world.connect()
        deep = b".".join([b"*"] * tokens)
        count = 3 * MIB // subscription_cost(deep) + 2
        client.send(b"".join(b"SUB %d.%b %d\r\n" % (n, deep, n) for n in range(count)))
        account = client.connection.account
        assert account is not None
        assert 0 < account.subscription_bytes <= MIB
        assert b"-ERR 'maximum subscriptions exceeded'" in client.take().lower().replace(b"-err", b"-ERR")
        client.send(b"".join(b"UNSUB %d\r\n" % n for n in range(count)))
        assert account.subscription_bytes == 0
        client.send(b"SUB again 1\r\n")
        assert account.subscription_bytes == subscription_cost(b"again")

    def test_those_of_a_client_that_left_are_given_back(self) -> None:
        world = HubWorld()
        client = world.connect()
        client.send(b"SUB a.* 1\r\nSUB b 2\r\n")
        account = client.connection.account
        assert account is not None and account.subscription_bytes > 0
        client.connection.close(CloseReason.CLIENT_CLOSED)
        assert account.subscription_bytes == 0


class TestVerdicts:
    """What is remembered about a restricted client's subjects: 15 MB a connection."""

    CONFIG = 'authorization { users: [ { user: u, password: p, permissions: { publish: ["a.>"] } } ] }'

    def test_long_subjects_are_not_remembered(self) -> None:
        world = HubWorld(self.CONFIG)
        witness = world.connect(user="u", **{"pass": "p"}).send(b"SUB a.> 1\r\n")
        client = world.connect(user="u", **{"pass": "p"})
        for n in range(3_000):
            client.send(b"PUB a.%d.%b 0\r\n\r\n" % (n, b"x" * 3_500))
        verdicts = client.connection.parser.verdicts
        assert verdicts is not None
        permissions = client.connection.permissions
        assert permissions is not None
        remembered = [*verdicts, *permissions._publishes]
        assert sum(map(len, remembered)) < 512 * KIB
        assert witness.take().count(b"MSG a.") == 3_000, "and they are still allowed"
        client.send(b"PUB b.%b 0\r\n\r\n" % (b"x" * 3_500))
        assert b"Permissions Violation" in client.take()


def test_routes_of_long_subjects_are_not_kept() -> None:
    """A publish to nobody leaves nothing behind that is as long as it was."""
    world = HubWorld()
    client = world.connect()
    account = client.connection.account
    assert account is not None
    client.send(b"".join(b"PUB %d.%b 0\r\n\r\n" % (n, b"x" * 2_000) for n in range(1_000)))
    assert account.interest.cached_routes == 0
    client.send(b"PUB short 0\r\n\r\n")
    assert account.interest.cached_routes == 1


class TestOutboxes:
    """Subscribers that read nothing: 60 of them held 3 GB, each within its `max_pending`."""

    def test_the_slowest_go_when_all_together_are_too_many(self) -> None:
        with ServerThread() as server:
            server.server.turns.outbox_bytes_max = 16 * MIB
            sleepers = []
            for _ in range(8):
                sleeper = RawClient(server.port)
                sleeper.read_until(b"\r\n")
                sleeper.send(b'CONNECT {"verbose":false}\r\nSUB flood 1\r\nPING\r\n')
                sleeper.read_until(b"PONG\r\n")
                sleepers.append(sleeper)
            with RawClient(server.port) as publisher, RawClient(server.port) as witness:
                for client in (publisher, witness):
                    client.read_until(b"\r\n")
                    client.send(b'CONNECT {"verbose":false}\r\nPING\r\n')
                    client.read_until(b"PONG\r\n")
                witness.send(b"SUB quiet 1\r\nPING\r\n")
                witness.read_until(b"PONG\r\n")
                for _ in range(40):
                    publisher.send(b"PUB flood %d\r\n%b\r\n" % (512 * KIB, bytes(512 * KIB)) + b"PING\r\n")
                    publisher.read_until(b"PONG\r\n")
                waiting = sum(outbox.pending for outbox in server.server.outboxes())
                assert waiting <= 18 * MIB, "a count is made for each sixteenth"
                assert server.server.hub.slow_consumers > 0
                publisher.send(b"PUB quiet 2\r\nhi\r\n")
                witness.read_until(b"MSG quiet 1 2\r\nhi\r\n")
            for sleeper in sleepers:
                sleeper.close()

    def test_one_that_reads_is_not_concerned(self) -> None:
        with ServerThread() as server:
            server.server.turns.outbox_bytes_max = 4 * MIB
            with RawClient(server.port) as reader:
                reader.read_until(b"\r\n")
                reader.send(b'CONNECT {"verbose":false}\r\nSUB flood 1\r\n')
                for _ in range(40):
                    reader.send(b"PUB flood %d\r\n%b\r\n" % (512 * KIB, bytes(512 * KIB)) + b"PING\r\n")
                    reader.read_until(b"PONG\r\n")
                assert server.server.hub.slow_consumers == 0
