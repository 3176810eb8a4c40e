"""Trees made by `slipstream auth` in servers: both kinds start with what is generated, and accounts can be pushed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import Cli
from support.servers import Launcher


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    made = Cli(tmp_path)
    made.env |= {"XDG_DATA_HOME": str(tmp_path / "data"), "NKEYS_PATH": ""}
    made.call("auth", "operator", "add", "OP")
    made.call("auth", "user", "add", "admin", "SYSTEM", "--defaults", "--credential", "admin.creds")
    made.call("auth", "account", "add", "APP", "--defaults")
    made.call("auth", "account", "keys", "add", "APP", "role", "--pub-allow", "r.{{name()}}", "--sub-allow", "_INBOX.>")
    made.call("auth", "user", "add", "bot", "APP", "--key", "role", "--credential", "bot.creds")
    return made


@pytest.mark.parametrize("kind", ["real", "ours"])
def test_a_server_starts_with_all_accounts_in_memory(cli: Cli, kind: str, request: pytest.FixtureRequest) -> None:
    launcher: Launcher = request.getfixturevalue(kind)
    text = cli.call("auth", "operator", "generate", "--resolver", "memory").stdout
    url = launcher.fresh(f"port: -1\n{text}").url
    cli.call("pub", "r.bot", "x", "-s", url, "--creds", "bot.creds")
    refused = cli.call("pub", "r.ann", "x", "-s", url, "--creds", "bot.creds", status=1)
    assert "Permissions Violation for Publish" in refused.stderr.replace("\n  ", " ")


@pytest.mark.parametrize("kind", ["real", "ours"])
def test_accounts_are_pushed_and_fetched(cli: Cli, kind: str, request: pytest.FixtureRequest) -> None:
    launcher: Launcher = request.getfixturevalue(kind)
    text = cli.call("auth", "operator", "generate", "--dir", str(cli.home / "jwt")).stdout
    url = launcher.fresh(f"port: -1\n{text}").url
    admin = ("-s", url, "--creds", "admin.creds")
    bot = ("pub", "r.bot", "x", "-s", url, "--creds", "bot.creds")
    assert "Authorization Violation" in cli.call(*bot, status=1).stderr
    assert "Success 1 Failed 0 Expected 1" in cli.call("auth", "account", "push", "APP", *admin).stdout
    cli.call(*bot)
    cli.call("auth", "account", "query", "APP", "fetched", *admin)
    kept = cli.home / "data/nats/nsc/stores/OP/accounts/APP/APP.jwt"
    assert Path("fetched").read_text() == kept.read_text()
