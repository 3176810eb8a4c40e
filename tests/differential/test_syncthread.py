"""The thread that writes and syncs against its model: the same files, the same errors, each told once."""

from __future__ import annotations

import os
import tempfile
import threading

from hypothesis import given
from hypothesis import strategies as st

from models.sync_thread import ModelSyncThread
from slipstream.kernels.log.syncthread import SyncThread

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(0, 2), st.integers(0, 40), st.binary(max_size=30)),
        st.tuples(st.just("wait")),
        st.tuples(st.just("look")),
    ),
    max_size=20,
)


@given(STEPS)
def test_follows_the_model(steps: list[tuple]) -> None:
    kernel, model = SyncThread(), ModelSyncThread()
    with tempfile.TemporaryFile() as ours, tempfile.TemporaryFile() as theirs, open(os.devnull, "rb") as unwritable:
        fds = {0: (ours.fileno(), theirs.fileno()), 1: (-1, -1), 2: (unwritable.fileno(), unwritable.fileno())}
        for step in [*steps, ("wait",)]:
            if step[0] == "begin":
                _, which, offset, data = step
                data = data or b"x"  # a sync alone of what is no file means different things on different systems
                assert kernel.begin(fds[which][0], offset, data) == model.begin(fds[which][1], offset, data)
            elif step[0] == "wait":
                assert kernel.wait() == model.wait()
            else:
                error = kernel.wait(0.0)
                if error >= 0 or not model.busy:
                    assert error == model.wait()
            assert kernel.busy == model.busy
        assert os.pread(ours.fileno(), 100, 0) == os.pread(theirs.fileno(), 100, 0)


def test_another_thread_may_wait_for_the_end() -> None:
    kernel, told = SyncThread(), []
    with tempfile.TemporaryFile() as file:
        assert kernel.begin(file.fileno(), 0, b"abc")
        waiting = threading.Thread(target=lambda: told.append(kernel.wait()))
        waiting.start()
        waiting.join()
        assert told == [0] and kernel.wait() == -1
        assert os.pread(file.fileno(), 9, 0) == b"abc"


def test_what_is_under_way_ends_before_the_thread_does() -> None:
    with tempfile.TemporaryFile() as file:
        for number in range(20):
            SyncThread().begin(file.fileno(), number, b"x")
        assert os.pread(file.fileno(), 99, 0) == b"x" * 20
