"""Work in steps, within a share of the time."""

from __future__ import annotations

import pytest

from monitoring.world import World
from slipstream.monitoring.limits import MONITOR_BURST_NS, MONITOR_JOBS_MAX, MONITOR_SHARE_PERCENT
from slipstream.monitoring.worker import Job, Steps, Worker, finished, in_steps


@pytest.fixture
def world() -> World:
    return World()


def job(log: list[str], name: str, steps: int, world: World | None = None, cost_ns: int = 0) -> Job:
    for step in range(steps):
        log.append(f"{name}{step}")
        if world is not None:
            world.clock.now += cost_ns
        if step < steps - 1:
            yield 0


def fire(world: World) -> None:
    """Let the newest timer run."""
    world.timers.pop().callback()


def test_small_job_is_done_at_once(world: World) -> None:
    log: list[str] = []
    assert Worker(world).submit(job(log, "a", 1))
    assert log == ["a0"]
    assert not world.timers


def test_loop_gets_its_turn_between_steps(world: World) -> None:
    log: list[str] = []
    worker = Worker(world)
    worker.submit(job(log, "a", 3))
    assert log == ["a0"]
    assert world.timers[-1].delay_ns == 0
    fire(world)
    fire(world)
    assert log == ["a0", "a1", "a2"]
    assert len(worker) == 0


def test_jobs_take_turns(world: World) -> None:
    log: list[str] = []
    worker = Worker(world)
    worker.submit(job(log, "a", 3))
    worker.submit(job(log, "b", 2))
    while world.timers:
        fire(world)
    assert log == ["a0", "a1", "b0", "a2", "b1"]


def test_work_over_budget_waits_for_its_share(world: World) -> None:
    log: list[str] = []
    worker = Worker(world)
    worker.submit(job(log, "long", 1, world, 2 * MONITOR_BURST_NS))
    worker.submit(job(log, "next", 1))
    assert log == ["long0"]
    # What was taken beyond the burst has to be earned, less what was earned meanwhile.
    owed_ns = MONITOR_BURST_NS - 2 * MONITOR_BURST_NS * MONITOR_SHARE_PERCENT // 100
    assert world.timers[-1].delay_ns == owed_ns * 100 // MONITOR_SHARE_PERCENT
    # Too early: nothing has been earned.
    fire(world)
    assert log == ["long0"]
    world.clock.now += world.timers[-1].delay_ns + 1000
    fire(world)
    assert log == ["long0", "next0"]


def test_share_holds_in_the_long_run(world: World) -> None:
    """Whoever asks without pause gets a share of the time and no more."""
    log: list[str] = []
    worker = Worker(world)
    start_ns, cost_ns, count = world.clock.now, 10_000_000, 500
    for _ in range(count):
        worker.submit(job(log, "x", 1, world, cost_ns))
    while world.timers:
        timer = world.timers.pop()
        world.clock.now += timer.delay_ns
        timer.callback()
    # The last job may begin with the last of the credit.
    used_ns = count * cost_ns - MONITOR_BURST_NS - cost_ns
    assert len(log) == count
    assert used_ns * 100 <= (world.clock.now - start_ns) * MONITOR_SHARE_PERCENT


def test_too_many_jobs_are_refused(world: World) -> None:
    worker = Worker(world)
    worker.submit(job([], "busy", 2))
    accepted = sum(worker.submit(job([], "x", 1)) for _ in range(MONITOR_JOBS_MAX + 10))
    assert accepted == MONITOR_JOBS_MAX - 1
    assert len(worker) == MONITOR_JOBS_MAX
    assert world.lines == [f"[WRN] Monitoring has {MONITOR_JOBS_MAX} requests waiting, more are not answered"]
    world.pass_time(60)
    worker.submit(job([], "x", 1))
    assert len(world.lines) == 2


def test_failing_job_is_logged_and_the_next_one_done(world: World) -> None:
    def failing() -> Job:
        yield 0
        raise RuntimeError("broken endpoint")

    log: list[str] = []
    worker = Worker(world)
    worker.submit(failing())
    worker.submit(job(log, "a", 1))
    while world.timers:
        fire(world)
    assert log == ["a0"]
    assert world.lines == ["[ERR] Monitoring request failed: RuntimeError: broken endpoint"]


def test_job_may_submit_another(world: World) -> None:
    log: list[str] = []
    worker = Worker(world)

    def asking() -> Job:
        worker.submit(job(log, "inner", 1))
        log.append("outer")
        return
        yield 0

    worker.submit(asking())
    assert log == ["outer", "inner0"]


def test_stop_forgets_what_waits(world: World) -> None:
    log: list[str] = []
    worker = Worker(world)
    worker.submit(job(log, "a", 3))
    worker.stop()
    assert world.timers[-1].cancelled
    assert len(worker) == 0


def test_results() -> None:
    def counting() -> Steps[int]:
        yield 0
        return 7

    assert finished(counting()) == 7
    assert finished(in_steps(counting())) == 7
    assert finished(in_steps("plain")) == "plain"
