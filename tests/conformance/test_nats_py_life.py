"""nats-py against either server: logging in by every means, errors it is told, losing and finding the server."""

from __future__ import annotations

from pathlib import Path

import nats.errors
import pytest

from support.keys import BCRYPT_OF_OPEN_SESAME, OTHER_SEED, USER_KEY, USER_SEED
from support.nats_py import Recorder, connected, run, settle
from support.server_process import ServerProcess
from support.servers import Launcher

# The client leaves sockets of failed and lost connections open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

USERS = f"""
authorization {{
  users: [
    {{ user: ann, password: "open" }}
    {{ user: hash, password: "{BCRYPT_OF_OPEN_SESAME}" }}
    {{ nkey: {USER_KEY} }}
    {{ user: tight, password: p, permissions: {{ publish: "ok.>", subscribe: ["ok.>", "_INBOX.>"] }} }}
  ]
}}
"""
TOKEN = "authorization { token: secret-token }"


async def echoes(server: ServerProcess, **options: object) -> bool:
    """Whether a client that logs in so can talk."""
    async with connected(server, **options) as client:
        subscription = await client.subscribe("ok.echo")
        await client.publish("ok.echo", b"x")
        return (await subscription.next_msg(timeout=5)).data == b"x"


@pytest.mark.parametrize("user,password", [("ann", "open"), ("hash", "open sesame"), ("tight", "p")])
def test_password(launcher: Launcher, user: str, password: str) -> None:
    assert run(lambda: echoes(launcher(USERS), user=user, password=password))


def test_password_in_the_url(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher(USERS)
        client = await nats.connect(f"nats://ann:open@127.0.0.1:{server.port}", allow_reconnect=False)
        assert client.is_connected
        await client.close()

    run(scenario)


@pytest.mark.parametrize("options", [{"user": "ann", "password": "no"}, {"user": "eve", "password": "open"}, {}])
def test_wrong_login(launcher: Launcher, options: dict[str, str]) -> None:
    async def scenario() -> None:
        with pytest.raises((nats.errors.AuthorizationError, nats.errors.NoServersError, nats.errors.Error)) as caught:
            async with connected(launcher(USERS), **options):
                pass
        assert "authorization" in str(caught.value).lower()

    run(scenario)


def test_token(launcher: Launcher) -> None:
    assert run(lambda: echoes(launcher(TOKEN), token="secret-token"))


def test_wrong_token(launcher: Launcher) -> None:
    async def scenario() -> None:
        with pytest.raises(nats.errors.Error, match=r"(?i)authorization"):
            async with connected(launcher(TOKEN), token="wrong"):
                pass

    run(scenario)


def test_nkey_seed(launcher: Launcher, tmp_path: Path) -> None:
    seed = tmp_path / "user.nk"
    seed.write_bytes(USER_SEED)
    assert run(lambda: echoes(launcher(USERS), nkeys_seed=str(seed)))


def test_nkey_seed_of_a_stranger(launcher: Launcher, tmp_path: Path) -> None:
    seed = tmp_path / "other.nk"
    seed.write_bytes(OTHER_SEED)

    async def scenario() -> None:
        with pytest.raises(nats.errors.Error, match=r"(?i)authorization"):
            async with connected(launcher(USERS), nkeys_seed=str(seed)):
                pass

    run(scenario)


def test_permission_errors_reach_the_callback(launcher: Launcher) -> None:
    async def scenario() -> None:
        errors = Recorder()
        async with connected(launcher(USERS), user="tight", password="p", error_cb=errors.add) as client:
            await client.publish("secret", b"x")
            await client.subscribe("secret.sub")
            await settle(client)
            texts = [str(error).lower() for error in await errors.wait_for(2)]
            assert 'permissions violation for publish to "secret"' in texts[0]
            assert 'permissions violation for subscription to "secret.sub"' in texts[1]
            assert client.is_connected

    run(scenario)


def test_reconnect_to_a_server_killed_and_started_again(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher.fresh()
        gone, back, received = Recorder(), Recorder(), Recorder()
        options = {"allow_reconnect": True, "reconnect_time_wait": 0.05, "max_reconnect_attempts": -1}
        callbacks = {"disconnected_cb": gone.add, "reconnected_cb": back.add, "error_cb": Recorder().add}
        async with connected(server, **options, **callbacks) as client:
            await client.subscribe("after", cb=received.add)
            await settle(client)
            server.kill()
            await gone.wait_for(1)
            server.restart()
            await back.wait_for(1)
            await client.publish("after", b"again")
            assert (await received.wait_for(1))[0].data == b"again"

    run(scenario)


def test_messages_published_while_away_arrive(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher.fresh()
        gone, back, received = Recorder(), Recorder(), Recorder()
        options = {"allow_reconnect": True, "reconnect_time_wait": 0.05, "max_reconnect_attempts": -1}
        callbacks = {"disconnected_cb": gone.add, "reconnected_cb": back.add, "error_cb": Recorder().add}
        async with connected(server, **options, **callbacks) as client:
            await client.subscribe("kept", cb=received.add)
            await settle(client)
            server.kill()
            await gone.wait_for(1)
            await client.publish("kept", b"while away")
            server.restart()
            await back.wait_for(1)
            assert (await received.wait_for(1))[0].data == b"while away"

    run(scenario)


def test_stopped_server_disconnects_its_clients(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher.fresh()
        closed = Recorder()
        async with connected(server, closed_cb=closed.add, error_cb=Recorder().add) as client:
            await settle(client)
            assert server.stop() in (0, 1)
            await closed.wait_for(1)

    run(scenario)


def test_lame_duck_reaches_the_client(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher.fresh('lame_duck_duration: "30s"\nlame_duck_grace_period: "5s"\n')
        told = Recorder()
        async with connected(server, lame_duck_mode_cb=told.add) as client:
            await settle(client)
            server.lame_duck()
            await told.wait_for(1)

    run(scenario)


def test_client_answers_frequent_pings(launcher: Launcher) -> None:
    async def scenario() -> None:
        server = launcher('ping_interval: "100ms"\nping_max: 1\n')
        async with connected(server, ping_interval=60) as client:
            subscription = await client.subscribe("alive")
            for _ in range(3):
                await settle(client)
            await client.publish("alive", b"x")
            assert (await subscription.next_msg(timeout=5)).data == b"x"

    run(scenario)
