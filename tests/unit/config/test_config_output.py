"""Digest, dump, generated documentation, exported names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import slipstream.config
from slipstream.config.digest import config_digest
from slipstream.config.dump import dump_options
from slipstream.config.keys.server import SERVER
from slipstream.config.options import Options
from slipstream.config.parser import parse_text
from slipstream.version import PRODUCT_VERSION
from support.config_loading import options

ROOT = Path(__file__).resolve().parents[3]


def test_digest_is_the_one_nats_server_prints() -> None:
    """Recorded from nats-server 2.15.1 with -t."""
    recorded = {
        "port: 4222": "797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e",
        "x: 5\nport: $x": "2c5e6fd6870f5614a30d9fa16f626cef8f85600f99dff43b391b62faa056536f",
        "authorization\n{\nuser=a\npass=b}": "f41ac29105330dd3d6b0989bb13d37c7e78c0f1f5898376412c508887538b5d7",
    }
    for text, digest in recorded.items():
        assert config_digest(parse_text(text)) == f"sha256:{digest}"


def test_digest_does_not_depend_on_style() -> None:
    plain = config_digest(parse_text('a: 1, b { c: [x, "y"] }'))
    assert plain == config_digest(parse_text('# comment\n{"b": {"c": ["x", "y"]}, "a": 1}'))
    assert plain != config_digest(parse_text("a: 1, b { c: [y, x] }"))


def test_dump_shows_everything_but_secrets() -> None:
    secrets = {name: f"hidden-{name}" for name in ("pass", "token", "user-pass", "js-key", "ws-pass", "route", "leaf")}
    text = f"""
        port: 4333, http_port: 8222, tls {{ pinned_certs: ["{"ab" * 32}"] }}
        authorization {{ password: {secrets["pass"]}, users: [] }}
        accounts {{ A {{ users: [{{user: someone, password: {secrets["user-pass"]}}}] }} }}
        jetstream {{ key: {secrets["js-key"]} }}
        websocket {{ authorization {{ user: u, password: {secrets["ws-pass"]}, token: {secrets["token"]} }} }}
        cluster {{ routes: ["nats://u:{secrets["route"]}@a"] }}
        leafnodes {{ remotes: [{{url: "nats://u:{secrets["leaf"]}@a"}}] }}
    """
    dumped = dump_options(options(text))
    assert not [secret for secret in secrets.values() if secret in dumped]
    plain = json.loads(dumped)
    assert (plain["port"], plain["accounts"][0]["users"][0]["user"]) == (4333, "someone")
    assert plain["accounts"][0]["users"][0]["password"] == "[REDACTED]"
    assert plain["tls"]["pinned_certs"] == ["ab" * 32]
    assert plain["no_auth_user"] == ""
    assert set(plain) == set(Options.__match_args__) - {"positions"}


def test_documentation_is_up_to_date() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "gen_config_docs.py"), "--check"]
    run = subprocess.run(tool, capture_output=True, text=True, check=False, timeout=50)
    assert run.returncode == 0, run.stderr


def test_documentation_lists_every_name() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[a-z0-9_]+", page))
    tables = _tables()
    assert len(tables) > 30
    for table in tables:
        for key in table.keys:
            assert set(key.names) <= words, key.names


def _tables() -> list[slipstream.config.checker.KeyTable]:
    """Every table of keys in the package, whether the documentation knows it or not."""
    from importlib import import_module

    from slipstream.config.checker import KeyTable

    found = []
    for path in sorted((ROOT / "src" / "slipstream" / "config" / "keys").glob("*.py")):
        module = import_module(f"slipstream.config.keys.{path.stem}")
        found += [value for name, value in vars(module).items() if isinstance(value, KeyTable) and name.isupper()]
    return found


def test_the_example_of_the_documentation_loads() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```\n(.*?)```", page, re.DOTALL)
    files = {"more.conf": b"ping_max: 3"}
    parsed = parse_text(example, name="doc.conf", read=files.__getitem__, environment={"APP_PASSWORD": "pw"})
    from slipstream.config.load import load

    got = load(parsed).options
    assert (got.server_name, got.max_payload, got.ping_max) == ("edge-1", 2 << 20, 3)
    (user,) = got.authorization.users
    assert user.password == "pw"
    assert user.permissions is not None


def test_every_option_is_reached_by_a_key() -> None:
    filled = {key.field for key in SERVER.keys} | {"trace_verbose", "trace_headers", "http_host", "trusted_proxies"}
    not_keys = {"config_file", "config_digest", "positions"}
    assert set(Options.__match_args__) - not_keys <= filled


def test_exported_names_exist() -> None:
    for name in slipstream.config.__all__:
        assert hasattr(slipstream.config, name)


def test_version_is_that_of_the_package() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{PRODUCT_VERSION}"\n' in project
