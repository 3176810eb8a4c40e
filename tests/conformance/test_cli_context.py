"""`slipstream context`, and the ways into a server: contexts, environment, passwords, nkeys, credentials, TLS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli import Cli
from support.keys import USER_KEY, USER_SEED
from support.servers import Launcher
from tlsfiles import Authority

LS = """\
╭────────────────────────╮
│     Known Contexts     │
├───────┬────────────────┤
│ Name  │ Description    │
├───────┼────────────────┤
│ dev   │                │
│ prod* │ The real thing │
╰───────┴────────────────╯
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_contexts_come_and_go(cli: Cli) -> None:
    assert "No contexts are defined" in cli.screen("context", "ls")
    screen = cli.screen(
        "context", "add", "prod", "--server", "nats://prod:4222", "--description", "The real thing", "--select"
    )
    assert 'NATS Configuration Context "prod"' in screen and "Server URLs: nats://prod:4222" in screen
    cli.call("ctx", "save", "dev", "-s", "nats://dev", "--user", "joe", "--password", "hunter2")
    assert cli.screen("context", "ls") == LS
    assert "hunter2" not in cli.call("ctx", "ls", "--json").stdout + cli.call("ctx", "show", "dev").stdout
    assert cli.screen("context", "ls", "--names").split() == ["dev", "prod"]
    assert cli.json("ctx", "info", "dev", "--json")["user"] == "joe"

    with cli.terminal("context", "select") as terminal:
        terminal.answer("Select a Context (dev, prod) [prod]", "dev").expect("nats://dev").finish()
    assert "nats://prod:4222" in cli.screen("context", "previous")
    assert "nats://dev" in cli.call("ctx", "-").stdout
    assert "No context is selected" in cli.screen("context", "unselect")
    cli.screen("context", "copy", "dev", "dev2", "--user", "ann")
    fields = json.loads((cli.home / "config/nats/context/dev2.json").read_text())
    assert (fields["url"], fields["user"]) == ("nats://dev", "ann")
    with cli.terminal("context", "rm", "dev2") as terminal:
        terminal.answer("Really delete context dev2?", "y").expect("Removed context dev2").finish()
    assert "unknown context 'dev2'" in cli.call("ctx", "rm", "dev2", "-f", status=1).stderr


def test_edit(cli: Cli, tmp_path: Path) -> None:
    cli.call("context", "add", "dev", "-s", "nats://dev")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s,nats://dev,nats://changed, "$1"\n')
    editor.chmod(0o755)
    cli.env["EDITOR"] = str(editor)
    assert "nats://changed" in cli.screen("context", "edit", "dev")
    editor.write_text('#!/bin/sh\necho nonsense > "$1"\n')
    assert "not JSON" in cli.call("ctx", "edit", "dev", status=1).stderr
    for broken in ("false", "no-such-editor"):
        cli.env["EDITOR"] = broken
        said = cli.call("ctx", "edit", "dev", status=1).stderr
        words = f"the editor '{broken}' ($EDITOR) failed or is not there; nothing was changed"
        assert said == f"slipstream: error: {words}\n"
    assert cli.json("ctx", "info", "dev", "--json")["url"] == "nats://changed"


def test_validate(cli: Cli, ours: Launcher) -> None:
    cli.call("context", "add", "good", "-s", ours().url)
    cli.call("context", "add", "bad", "-s", "nats://127.0.0.1:1", "--nkey", "/missing/seed")
    cli.call("context", "add", "refused", "-s", "nats://127.0.0.1:1,nats://127.0.0.1:1")
    assert "Server URLs: nats://127.0.0.1:1\n               nats://127.0.0.1:1\n" in cli.screen(
        "ctx", "info", "refused"
    )
    screen = cli.screen("context", "validate", "--connect", status=1)
    assert "Connection: OK" in screen and "3 errors found" in screen
    assert "NKey: /missing/seed (ERROR: no such file)" in screen
    assert "Connection: cannot connect to 127.0.0.1:1: Connection refused\n" in cli.screen(
        "ctx", "info", "refused", "--connect", status=1
    )
    assert "Connection: OK" in cli.call("ctx", "validate", "good", "--connect").stdout


REFUSED = "Authorization Violation"


def test_ways_in_with_passwords(cli: Cli, ours: Launcher) -> None:
    url = ours("port: -1\nauthorization { users: [ {user: joe, password: secret} ] }\n").url
    joe = ("--user", "joe", "--password", "secret")
    assert REFUSED in cli.call("-s", url, "pub", "x", "y", status=1).stderr
    assert REFUSED in cli.call("-s", url, "--user", "joe", "--password", "no", "pub", "x", "y", status=1).stderr
    cli.call("-s", url, *joe, "pub", "x", "y")
    cli.call("-s", url.replace("://", "://joe:secret@"), "pub", "x", "y")
    # A server that is not there is passed over.
    cli.call("context", "add", "joe", "-s", f"nats://127.0.0.1:1,{url}", *joe, "--select")
    cli.call("pub", "x", "y")
    cli.call("--context", "joe", "pub", "x", "y")
    assert REFUSED in cli.call("--no-context", "-s", url, "pub", "x", "y", status=1).stderr
    cli.env["NATS_PASSWORD"] = "wrong"
    assert REFUSED in cli.call("pub", "x", "y", status=1).stderr
    cli.env["NATS_PASSWORD"] = ""
    cli.run("pub", "x", "y")


def test_ways_in_with_tokens(cli: Cli, ours: Launcher) -> None:
    url = ours("port: -1\nauthorization { token: open-sesame }\n").url
    assert REFUSED in cli.call("-s", url, "pub", "x", "y", status=1).stderr
    cli.call("-s", url, "--token", "open-sesame", "pub", "x", "y")
    cli.call("-s", url, "--user", "open-sesame", "pub", "x", "y")


def test_ways_in_with_keys(cli: Cli, ours: Launcher, tmp_path: Path) -> None:
    url = ours(f"port: -1\nauthorization {{ users: [ {{nkey: {USER_KEY}}} ] }}\n").url
    seed = tmp_path / "user.nk"
    seed.write_bytes(USER_SEED)
    assert REFUSED in cli.call("-s", url, "pub", "x", "y", status=1).stderr
    cli.call("-s", url, "--nkey", str(seed), "pub", "x", "y")
    cli.env["NATS_NKEY"] = str(seed)
    cli.call("-s", url, "pub", "x", "y")
    cli.env["NATS_NKEY"] = ""
    cli.call("context", "add", "keyed", "-s", url, "--nkey", str(seed), "--embed")
    seed.unlink()
    cli.call("--context", "keyed", "pub", "x", "y")
    assert "No such file" in cli.call("-s", url, "--nkey", str(seed), "pub", "x", "y", status=1).stderr
    seed.write_text("nonsense")
    assert "seed found" in cli.call("-s", url, "--nkey", str(seed), "pub", "x", "y", status=1).stderr
    assert "no user JWT found" in cli.call("-s", url, "--creds", str(seed), "pub", "x", "y", status=1).stderr


def test_ways_in_with_certificates(cli: Cli, ours: Launcher, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, client = authority.issue("127.0.0.1"), authority.issue("joe@example.com", name="client")
    url = ours(f'port: -1\ntls {{ {server.block}, ca_file: "{authority.ca_file}", verify: true }}\n').url
    files = ("--tlscert", str(client.cert_file), "--tlskey", str(client.key_file))
    cli.call("-s", url, "--tlsca", str(authority.ca_file), *files, "pub", "x", "y")
    assert "TLS handshake" in cli.call("-s", url, *files, "pub", "x", "y", status=1).stderr
    cli.call("-s", url, "--tlsca", str(authority.ca_file), "pub", "x", "y", status=1)
    broken = ("--tlsca", str(client.key_file))
    assert "the TLS files cannot be used" in cli.call("-s", url, *broken, "pub", "x", "y", status=1).stderr
    cli.env |= {"NATS_CA": str(authority.ca_file), "NATS_CERT": files[1], "NATS_KEY": files[3]}
    cli.run("-s", url, "pub", "x", "y")
