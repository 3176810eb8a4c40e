"""Modules that are loaded when somebody needs them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from types import MethodType

import pytest

from slipstream.server.process.stand_ins import PUT_OFF, StandIn, _Inspect

BEGIN = """
import json, sys
from slipstream.server.process.stand_ins import PUT_OFF, StandIn, load_put_off, put_off
put_off()
import asyncio, uvloop
def waiting(): return [name for name in PUT_OFF if isinstance(sys.modules[name], StandIn)]
"""


def _run(code: str) -> object:
    done = subprocess.run([sys.executable, "-c", BEGIN + code], capture_output=True, timeout=60, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_is_loaded_by_those_who_only_import() -> None:
    assert _run("asyncio.run(asyncio.sleep(0)); print(json.dumps(waiting()))") == list(PUT_OFF)


def test_whoever_needs_one_gets_the_module_itself() -> None:
    code = """
import inspect as early
from inspect import signature
import inspect
assert not isinstance(inspect, StandIn) and early.signature is signature is inspect.signature
import textwrap
assert textwrap.dedent("  a") == "a"
try:
    textwrap.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise SystemExit("a name that nobody has")
print(json.dumps(waiting()))
"""
    assert _run(code) == ["locale", "tokenize"]


def test_threads_that_need_one_at_once_get_the_same() -> None:
    code = """
import threading
early = sys.modules["inspect"]
together, got = threading.Barrier(8), []
def need():
    together.wait()
    got.append(early.Signature)
threads = [threading.Thread(target=need) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
import inspect
print(json.dumps([len(got), all(one is inspect.Signature for one in got)]))
"""
    assert _run(code) == [8, True]


def test_all_are_there_in_the_end() -> None:
    assert _run("load_put_off(); import inspect; print(json.dumps([*waiting(), inspect.isclass(int)]))") == [True]


class _Things:
    def plain(self) -> None: ...
    async def awaited(self) -> None: ...


async def _awaited() -> None: ...


@pytest.mark.parametrize(
    "value",
    [
        _awaited,
        _run,
        _Things().plain,
        _Things().awaited,
        partial(_awaited),
        partial(_run, ""),
        MethodType(partial(_awaited), 1),
        _Things,
        3,
        print,
    ],
    ids=[
        "coroutine",
        "function",
        "method",
        "awaited_method",
        "partial",
        "plain_partial",
        "odd_method",
        "class",
        "int",
        "builtin",
    ],
)
def test_functions_are_told_apart_as_the_module_does(value: object) -> None:
    import inspect

    assert _Inspect("inspect").iscoroutinefunction(value) == inspect.iscoroutinefunction(value)


def test_generators_are_told_apart() -> None:
    assert _Inspect.isgenerator(one for one in ()) and not _Inspect.isgenerator(iter(()))
    assert issubclass(_Inspect, StandIn)
