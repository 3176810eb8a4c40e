"""kill -9 before each call that changes a file or sends something, of a lake writer, its catalogue and its server.

Whatever dies, the table has each message once when somebody goes on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipstream.bulk import BulkError, ConnectOptions
from slipstream.lake.opening import TablePlan
from slipstream.lake.service import LakeService
from slipstream.lake.writing import WriteSettings
from slipstream.spark.lake import LakeError, Wish
from slipstream.testing import ServerThread
from support.kill_steps import HAS_COMPILER, KillSteps
from support.ports import free_port
from support.server_process import ServerProcess
from support.spark_streams import Streams

STEPPER, CATALOGUE = (Path(__file__).with_name(f"{name}_stepper.py") for name in ("lake", "catalogue"))
EVERYTHING = ("seq", "ts_ns", "subject", "hdr_raw", "payload")
STRIDE = 17  # of the short form
pytestmark = [
    pytest.mark.skipif(not HAS_COMPILER, reason="needs a C compiler"),
    pytest.mark.timeout(3000),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


class Stepper:
    """Turns of a writer in processes of their own."""

    def __init__(self, kills: KillSteps, *arguments: str) -> None:
        self._kills = kills
        self._process = subprocess.Popen(
            [sys.executable, str(STEPPER), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **kills.environment},
        )

    def turn(self, stream: str, step: int, *, torn: bool = False) -> bool:
        """A turn that dies before a step; whether it came to its end."""
        child = int(self._ask(stream))
        self._kills.arm(child, step, torn=torn)
        status = int(self._ask())
        assert status in (0, -9)
        return status == 0

    def _ask(self, words: str = "") -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def close(self) -> None:
        with self._process:
            self._process.kill()


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    with ServerThread(store_dir=str(tmp_path / "server")) as server:
        yield Streams(server.url)


def rows_of(plan: TablePlan, name: str) -> list[dict[str, Any]]:
    try:
        table = plan.opener()(name, None)
    except LakeError:
        return []  # not made yet
    return [row for batch in table.read(Wish(), None) for row in batch.select(list(EVERYTHING)).to_pylist()]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "every"])
def test_a_writer_dies_before_each_step(streams: Streams, tmp_path: Path, kind: str, every: bool) -> None:
    """In the turn that makes a table, and in one that finds it; each step has a stream of its own."""
    plan = TablePlan(str(tmp_path / "lake"), kind)
    kills = KillSteps(tmp_path)
    stepper = Stepper(kills, streams.url, plan.location, kind)
    step, is_done = 1, False
    try:
        while not is_done:
            name, filled = f"S{step}", 0
            streams.create(name)
            is_done = True
            for _ in range(2):
                streams.fill(name, 90, filled)  # some files
                filled += 90
                is_done &= stepper.turn(name, step, torn=step % 2 == 0)
                found, there = rows_of(plan, name), streams.rows(name, *EVERYTHING)
                assert found == there[: len(found)]
                assert stepper.turn(name, 0)
                assert rows_of(plan, name) == there
            streams.delete(name)
            step += 1 if every else STRIDE
    finally:
        stepper.close()
    assert step > 3 * STRIDE


def test_a_writer_that_can_die_between_messages_and_position_is_found_out(streams: Streams, tmp_path: Path) -> None:
    """The control: such a writer adds messages twice, and these tests see it."""
    plan = TablePlan(str(tmp_path / "lake"), "delta")
    stepper = Stepper(KillSteps(tmp_path), streams.url, plan.location, "delta-in-two")
    try:
        for step in range(1, 200):
            name = f"S{step}"
            streams.create(name)
            streams.fill(name, 20)
            assert not stepper.turn(name, step), "it never died between the two"
            assert stepper.turn(name, 0)
            if rows_of(plan, name) != streams.rows(name, *EVERYTHING):
                break
            streams.delete(name)
    except LakeError as error:  # the reader sees it, too
        assert "repeats sequences" in str(error)
    finally:
        stepper.close()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "every"])
def test_the_server_dies_before_each_step(tmp_path: Path, kind: str, every: bool) -> None:
    """In the middle of what a writer asks of it: what it holds, what it plans, what it reads."""
    name, kills = "ORDERS", KillSteps(tmp_path)
    plan = TablePlan(str(tmp_path / "lake"), kind)
    (tmp_path / "run").mkdir()
    config = f'jetstream {{ store_dir: "{tmp_path}/store" }}\n'
    server = ServerProcess(Path(sys.executable).parent / "slipstream-server", tmp_path / "run", config=config)
    server.environment = kills.environment
    settings = WriteSettings(file_bytes=2500, compact_files=4, keep_seconds=0.0)
    filled, step, is_done = 0, 1, False
    with server:
        streams = Streams(server.url)
        streams.create(name)
        # One writer for all of it: it finds the server gone again and again.
        with LakeService(ConnectOptions(server.url), plan.opener(), [name], settings) as service:
            while not is_done:
                streams.fill(name, 90, filled)
                filled += 90
                kills.arm(server.pid, step, torn=step % 2 == 0)
                try:
                    report = service.turn()
                    is_done = kills.steps < step and not report.failures
                except BulkError:
                    assert kills.steps >= step
                kills.arm(0, 0)
                if not is_done:
                    server.restart()
                report = service.turn()
                assert not report.failures and not report.streams[0].lag
                there = streams.rows(name, *EVERYTHING)
                assert len(there) == filled
                assert rows_of(plan, name) == there
                step += 1 if every else STRIDE
    assert step > STRIDE


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "every"])
def test_the_catalogue_dies_before_each_step(streams: Streams, tmp_path: Path, every: bool) -> None:
    """The store of a catalogue: what it has committed counts, whether the writer heard of it or not."""
    name, port, kills = "ORDERS", free_port(), KillSteps(tmp_path)
    streams.create(name)
    plan = TablePlan(f"file://{tmp_path}/lake", "iceberg", {"type": "rest", "uri": f"http://127.0.0.1:{port}"})
    process = subprocess.Popen(
        [sys.executable, str(CATALOGUE), str(tmp_path), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **kills.environment},
    )
    assert process.stdin is not None and process.stdout is not None

    def begin(step: int) -> int:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        kills.arm(child, step, torn=step % 2 == 0)
        return child

    def turn() -> bool:
        """A turn; whether all of it was done."""
        settings = WriteSettings(file_bytes=2500, compact_files=4, keep_seconds=0.0)
        try:
            with LakeService(ConnectOptions(streams.url), plan.opener(), [name], settings) as service:
                report = service.turn()
                if not report.failures:
                    service._writers[name].expire()
                return not report.failures and not report.streams[0].lag
        except (LakeError, OSError):  # nobody listens
            return False

    filled, step = 0, 1
    try:
        while True:
            child = begin(step)
            streams.fill(name, 90, filled)
            filled += 90
            turn()
            if kills.steps < step:
                os.kill(child, signal.SIGKILL)
                break
            assert process.stdout.readline() == "-9\n"
            child = begin(0)
            assert turn()
            assert rows_of(plan, name) == streams.rows(name, *EVERYTHING)
            os.kill(child, signal.SIGKILL)
            assert process.stdout.readline() == "-9\n"
            step += 1 if every else STRIDE
    finally:
        with process:
            process.kill()
    assert step > 3 * STRIDE
