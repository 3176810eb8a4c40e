"""The pytest plugin, as projects meet it: with nothing to set up, and without a trace where it is not used."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PLUGIN = "slipstream.testing.fixtures"
ROOT = Path(__file__).parents[3]


def _run(pytester: pytest.Pytester, code: str, *flags: str) -> pytest.RunResult:
    """Run a test file with the plugin as an installation registers it: under this name, beside all the others."""
    pytester.makepyfile(code)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    return pytester.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider", *flags)


def test_the_package_registers_the_plugin_under_the_name_of_its_module() -> None:
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert entry_points == {PLUGIN: PLUGIN}
    assert {"jetstream", "nats_server", "nats_url"} <= set(importlib.import_module(PLUGIN).__all__)


def test_a_plain_test_gets_a_server_of_its_own_with_jetstream(pytester: pytest.Pytester) -> None:
    done = _run(
        pytester,
        """
        import json, pytest
        from slipstream.client.wire import WireClient

        @pytest.mark.parametrize("run", range(2))
        def test_streams_of_other_tests_are_not_there(nats_server, nats_url, run):
            assert nats_url == nats_server.url
            with WireClient(nats_url) as client:
                assert json.loads(client.request("$JS.API.STREAM.NAMES").payload)["total"] == 0
                made = client.request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
                assert b'"error"' not in made.payload
                assert json.loads(client.request("s", b"hello").payload)["seq"] == 1
        """,
    )
    done.assert_outcomes(passed=2)


def test_the_store_goes_with_the_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = pytester.mkdir("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    done = _run(
        pytester,
        """
        import tempfile, pathlib

        def test_there_is_a_store(nats_server):
            assert list(pathlib.Path(tempfile.gettempdir()).glob("slipstream-*"))
        """,
    )
    done.assert_outcomes(passed=1)
    assert list(scratch.iterdir()) == []


def test_asyncio_tests_with_the_official_client(pytester: pytest.Pytester) -> None:
    done = _run(
        pytester,
        """
        import nats, pytest

        @pytest.mark.asyncio
        async def test_greeting(nats_url, jetstream):
            jetstream.create_stream("S", subjects=["s.>"])
            client = await nats.connect(nats_url)
            assert (await client.jetstream().publish("s.a", b"hello")).seq == 1
            await client.close()
            assert jetstream.stream("S").last().data == b"hello"
        """,
    )
    done.assert_outcomes(passed=1)


def test_one_server_for_a_whole_run(pytester: pytest.Pytester) -> None:
    done = _run(
        pytester,
        """
        import pytest
        seen = set()

        @pytest.mark.parametrize("run", range(3))
        def test_same(nats_server_session, run):
            seen.add(nats_server_session.port)
            assert len(seen) == 1
        """,
    )
    done.assert_outcomes(passed=3)


def test_arguments_of_the_server_are_a_fixture_to_override(pytester: pytest.Pytester) -> None:
    done = _run(
        pytester,
        """
        import pytest
        from slipstream.client.wire import WireClient

        @pytest.fixture
        def nats_server_arguments():
            return {"server_name": "mine", "jetstream": False, "max_payload": 100}

        def test_it_is_as_asked(nats_url):
            with WireClient(nats_url) as client:
                assert (client.info.server_name, client.info.max_payload) == ("mine", 100)
                assert not client.info.jetstream
        """,
    )
    done.assert_outcomes(passed=1)


def test_naming_the_plugin_as_before_is_harmless(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(f"pytest_plugins = [{PLUGIN!r}]")
    done = _run(pytester, "def test_url(nats_url): assert nats_url.startswith('nats://127.0.0.1:')")
    done.assert_outcomes(passed=1)


def test_runs_that_do_not_ask_for_a_server_load_none() -> None:
    fake = "import sys, types; p = types.ModuleType('pytest'); p.fixture = lambda *a, **k: a[0] if a else lambda f: f"
    code = f"{fake}; sys.modules['pytest'] = p; import {PLUGIN}; print(*(m for m in sys.modules if 'slipstream' in m))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30).stdout
    assert set(loaded.split()) == {"slipstream", "slipstream.version", "slipstream.testing", PLUGIN}
