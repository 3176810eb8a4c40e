"""Flags before environment before context before defaults; context files as `nats` writes them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from slipstream.cli.contexts import ContextError, Contexts
from slipstream.cli.settings import Settings, resolve


def test_the_order_of_sources() -> None:
    context = {"url": "nats://context", "user": "context", "creds": "context.creds", "tls_first": True}
    environment = {"NATS_URL": "nats://environment", "NATS_USER": "environment", "NATS_TIMEOUT": "2s"}
    settings = resolve({"server": "nats://flag"}, environment, context, "name")
    assert (settings.server, settings.user, settings.creds) == ("nats://flag", "environment", "context.creds")
    assert (settings.timeout_ns, settings.tlsfirst, settings.context) == (2_000_000_000, True, "name")


def test_defaults() -> None:
    settings = resolve({}, {}, {}, "")
    assert settings == Settings()
    assert (settings.urls, settings.api_prefix) == (["nats://127.0.0.1:4222"], "$JS.API")


def test_domains_and_prefixes() -> None:
    assert resolve({"js_domain": "hub"}, {}, {}, "").api_prefix == "$JS.hub.API"
    assert resolve({"js_api_prefix": "other.API."}, {}, {"jetstream_domain": "hub"}, "").api_prefix == "other.API"
    assert resolve({"server": "a, b ,,"}, {}, {}, "").urls == ["a", "b"]


def test_a_wrong_timeout_is_refused() -> None:
    with pytest.raises(ValueError, match="not a duration"):
        resolve({}, {"NATS_TIMEOUT": "soon"}, {}, "")


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(resolve({"password": "hunter2", "token": "hunter2"}, {}, {}, ""))


def test_contexts_are_files(tmp_path: Path) -> None:
    contexts = Contexts(tmp_path)
    assert (contexts.names(), contexts.selected()) == ([], "")
    contexts.save("a", {"url": "nats://a", "unknown_field": 1})
    contexts.save("b", {"url": "nats://b"})
    assert contexts.load("a") == {"url": "nats://a", "unknown_field": 1}
    assert stat.S_IMODE(contexts.path("a").stat().st_mode) == 0o600
    contexts.select("a")
    contexts.select("b")
    assert (contexts.selected(), contexts.previous()) == ("b", "a")
    assert (tmp_path / "context.txt").read_text() == "b"
    contexts.remove("b")
    assert (contexts.names(), contexts.selected()) == (["a"], "")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "\0", "a" * 300])
def test_names_stay_in_the_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(ContextError):
        Contexts(tmp_path).path(name)


@pytest.mark.parametrize("text", ["", "[]", "{", "\x80"])
def test_damaged_files_are_reported(tmp_path: Path, text: str) -> None:
    contexts = Contexts(tmp_path)
    contexts.save("a", {})
    contexts.path("a").write_text(text, encoding="latin-1")
    with pytest.raises(ContextError):
        contexts.load("a")
