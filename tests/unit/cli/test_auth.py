"""`slipstream auth`: trees of operators, accounts and users, made here or by `nsc`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from slipstream.auth.jwt.token import decode_account, decode_activation, decode_user
from slipstream.client.credentials import read_credentials
from support.cli import Cli

FIXTURE = Path(__file__).parents[2] / "fixtures" / "nsc_tree.json"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    made = Cli(tmp_path)
    made.env |= {"XDG_DATA_HOME": str(tmp_path / "data"), "NKEYS_PATH": ""}
    return made


@pytest.fixture
def tree(cli: Cli) -> Cli:
    """An operator with an account and a user."""
    cli.call("auth", "operator", "add", "OP")
    cli.call("auth", "account", "add", "APP", "--defaults")
    cli.call("auth", "user", "add", "ann", "APP", "--defaults")
    return cli


@pytest.fixture
def nsc(cli: Cli) -> Cli:
    """A tree that `nsc` made."""
    for name, text in json.loads(FIXTURE.read_text()).items():
        path = cli.home / "data" / "nats" / "nsc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return cli


def claims(cli: Cli, *words: str) -> Any:
    return cli.json("auth", *words, "--json")


def test_a_tree_has_the_layout_of_nsc_and_is_for_its_owner_alone(tree: Cli) -> None:
    root = tree.home / "data" / "nats" / "nsc"
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    stores = [name for name in files if name.startswith("stores/")]
    assert stores == [
        "stores/OP/.nsc",
        "stores/OP/OP.jwt",
        "stores/OP/accounts/APP/APP.jwt",
        "stores/OP/accounts/APP/users/ann.jwt",
        "stores/OP/accounts/SYSTEM/SYSTEM.jwt",
    ]
    info = {"managed": False, "name": "OP", "kind": "operator", "version": "1"}
    assert json.loads((root / "stores/OP/.nsc").read_text()) == info
    public = claims(tree, "user", "info", "ann", "APP")["sub"]
    assert f"keys/keys/U/{public[1:3]}/{public}.nk" in files
    assert len([name for name in files if name.endswith(".nk")]) == 5  # two of the operator, two accounts, a user
    assert all(path.stat().st_mode & 0o077 == 0 for path in root.rglob("*"))


def test_what_is_there_is_not_made_again(tree: Cli) -> None:
    for words in (("operator", "add", "OP"), ("account", "add", "APP"), ("user", "add", "ann", "APP")):
        assert "exists already" in tree.call("auth", *words, status=1).stderr
    assert "there is no operator 'X'" in tree.call("auth", "operator", "info", "X", status=1).stderr
    assert "is not in operator" in tree.call("auth", "account", "info", "X", status=1).stderr
    assert "is not in account" in tree.call("auth", "user", "info", "x", "APP", status=1).stderr
    for name in ("../x", "a/b", ".hidden", "a\nb"):
        assert "cannot be the name" in tree.call("auth", "account", "add", name, "--defaults", status=1).stderr


def test_a_user_has_the_rights_that_were_given(tree: Cli) -> None:
    flags = "--pub-allow a.> --pub-deny a.no --responses 2 --source 10.0.0.0/8 --connection ws --bearer --expiry 1h"
    tree.call(
        "auth", "user", "add", "bob", "APP", *flags.split(), "--sub-allow", "q one", "--times", "08:00:00-09:00:00"
    )
    part = claims(tree, "user", "info", "bob", "APP")["nats"]
    assert part["pub"] == {"allow": ["a.>"], "deny": ["a.no"]}
    assert part["sub"] == {"allow": ["q one"]}
    assert part["resp"] == {"max": 2, "ttl": 120_000_000_000}
    assert part["src"] == ["10.0.0.0/8"]
    assert part["times"] == [{"start": "08:00:00", "end": "09:00:00"}]
    assert part["allowed_connection_types"] == ["WEBSOCKET"]
    assert part["bearer_token"] is True
    tree.call(
        "auth", "user", "edit", "bob", "APP", "--pub-deny", "", "--no-bearer", "--responses", "0", "--expiry", "0"
    )
    changed = claims(tree, "user", "info", "bob", "APP")
    assert changed["nats"]["pub"] == {"allow": ["a.>"]}
    assert not {"resp", "bearer_token"} & changed["nats"].keys()
    assert "exp" not in changed
    assert changed["nats"]["src"] == ["10.0.0.0/8"]


def test_what_a_server_would_refuse_is_not_written(tree: Cli) -> None:
    before = claims(tree, "user", "info", "ann", "APP")
    failed = tree.call("auth", "user", "edit", "ann", "APP", "--source", "everywhere", status=1)
    assert "invalid cidr" in failed.stderr
    assert claims(tree, "user", "info", "ann", "APP") == before
    tree.call("auth", "account", "exports", "add", "all", "a.>", "APP")
    failed = tree.call("auth", "account", "exports", "add", "one", "a.b", "APP", status=1)
    assert "already exports" in failed.stderr


def test_users_of_a_role_have_no_rights_of_their_own(tree: Cli) -> None:
    tree.call("auth", "account", "keys", "add", "APP", "svc", "--pub-allow", "svc.{{name()}}")
    tree.call("auth", "user", "add", "bot", "APP", "--key", "svc")
    account = claims(tree, "account", "info", "APP")
    part = claims(tree, "user", "info", "bot", "APP")["nats"]
    assert part == {"pub": {}, "sub": {}, "issuer_account": account["sub"], "type": "user", "version": 2}
    failed = tree.call("auth", "user", "add", "x", "APP", "--key", "svc", "--pub-allow", "y", status=1)
    assert "the role of the key" in failed.stderr
    tree.call("auth", "account", "keys", "edit", "APP", "svc", "--sub-allow", "in.>")
    template = claims(tree, "account", "keys", "info", "APP", "svc")["template"]
    assert (template["pub"], template["sub"]) == ({"allow": ["svc.{{name()}}"]}, {"allow": ["in.>"]})
    assert "svc" in tree.call("auth", "account", "keys", "ls", "APP").stdout
    tree.call("auth", "account", "keys", "rm", "APP", "--key", "svc", "-f")
    assert not claims(tree, "account", "info", "APP")["nats"]["signing_keys"]


def test_private_exports_are_imported_with_an_activation(tree: Cli) -> None:
    tree.call("auth", "account", "add", "B", "--defaults")
    tree.call("auth", "account", "exports", "add", "news", "news.>", "APP", "--private")
    tree.call("auth", "account", "exports", "activate", "news.>", "B", "APP", "-o", "token", "--expiry", "1h")
    activation = decode_activation(Path("token").read_text())
    b = claims(tree, "account", "info", "B")["sub"]
    assert (activation.sub, activation.nats.subject, activation.nats.kind) == (b, "news.>", "stream")
    assert 0 < activation.exp - time.time() <= 3600
    tree.call("auth", "account", "imports", "add", "n", "news.a", "B", "--source", "APP", "--token", "token")
    assert claims(tree, "account", "imports", "info", "news.a", "B")["token"] == Path("token").read_text()
    # An activation of something else would not do.
    failed = tree.call(
        "auth", "account", "imports", "add", "o", "old", "B", "--source", "APP", "--token", "token", status=1
    )
    assert "doesn't match import" in failed.stderr
    tree.call("auth", "account", "imports", "rm", "news.a", "B", "-f")
    assert "No Imports defined" in tree.call("auth", "account", "imports", "ls", "B").stdout


def test_limits_and_jetstream_of_an_account(tree: Cli) -> None:
    tree.call("auth", "account", "edit", "APP", "--connections", "5", "--jetstream", "--js-disk", "1MB", "--bearer")
    limits = claims(tree, "account", "info", "APP")["nats"]["limits"]
    assert (limits["conn"], limits["disk_storage"], limits["mem_storage"]) == (5, 1 << 20, 1 << 30)
    assert "disallow_bearer" not in limits
    assert limits["subs"] == -1
    tree.call("auth", "account", "edit", "APP", "--no-jetstream")
    limits = claims(tree, "account", "info", "APP")["nats"]["limits"]
    assert (limits["conn"], "disk_storage" in limits) == (5, False)
    assert "give --jetstream" in tree.call("auth", "account", "edit", "APP", "--js-disk", "1", status=2).stderr


def test_mappings(tree: Cli) -> None:
    tree.call("auth", "account", "mappings", "add", "APP", "a", "b", "60")
    tree.call("auth", "account", "mappings", "add", "APP", "a", "c", "40")
    assert claims(tree, "account", "mappings", "info", "APP", "a") == {
        "a": [{"subject": "b", "weight": 60}, {"subject": "c", "weight": 40}]
    }
    assert "exceeds 100%" in tree.call("auth", "account", "mappings", "add", "APP", "a", "d", "1", status=1).stderr
    tree.call("auth", "account", "mappings", "rm", "APP", "a")
    assert "No mappings" in tree.call("auth", "account", "mappings", "ls", "APP").stdout


def test_credentials_are_the_users(tree: Cli) -> None:
    tree.call("auth", "user", "credential", "ann.creds", "ann", "APP", "--expire", "1h")
    assert Path("ann.creds").stat().st_mode & 0o777 == 0o600
    key = read_credentials(Path("ann.creds").read_text())
    token = decode_user(key.jwt)
    assert key.public == token.sub == claims(tree, "user", "info", "ann", "APP")["sub"]
    assert 0 < token.exp - time.time() <= 3600
    assert "exists already" in tree.call("auth", "user", "creds", "ann.creds", "ann", "APP", status=1).stderr
    tree.call("auth", "user", "rm", "ann", "APP", "--revoke", "-f")
    assert claims(tree, "account", "info", "APP")["nats"]["revocations"].keys() == {token.sub}
    assert tree.call("auth", "user", "ls", "APP", "--names").stdout == ""


def test_signing_keys_that_are_required_are_used(tree: Cli) -> None:
    tree.call("auth", "operator", "edit", "OP", "--require-signing-keys")
    operator = claims(tree, "operator", "info", "OP")
    tree.call("auth", "account", "add", "NEW", "--defaults")
    assert claims(tree, "account", "info", "NEW")["iss"] == operator["nats"]["signing_keys"][0]
    failed = tree.call("auth", "user", "add", "x", "NEW", "--defaults", status=1)
    assert "no key that signs for account 'NEW'" in failed.stderr
    tree.call("auth", "account", "keys", "add", "NEW", "--plain")
    tree.call("auth", "user", "add", "x", "NEW", "--defaults")
    assert (
        claims(tree, "user", "info", "x", "NEW")["nats"]["issuer_account"]
        == claims(tree, "account", "info", "NEW")["sub"]
    )


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_backup_brings_everything_back(tree: Cli, encrypted: bool) -> None:
    words = ["--key", "curve.nk"] if encrypted else []
    tree.call("auth", "nkey", "gen", "curve", "-o", "curve.nk")
    tree.call("auth", "operator", "backup", "OP", "saved", *words)
    assert Path("saved").stat().st_mode & 0o777 == 0o600
    assert (b"SU" in Path("saved").read_bytes() and b'"token"' in Path("saved").read_bytes()) is not encrypted
    root = tree.home / "data"
    before = {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    root.rename(tree.home / "gone")
    tree.call("auth", "operator", "restore", "OP", "saved", *words)
    assert {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert "exists already" in tree.call("auth", "operator", "restore", "OP", "saved", *words, status=1).stderr


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": "OP", "token": 5}', '{"name": "OP", "token": "a.b.c"}'])
def test_what_is_no_backup_is_refused(cli: Cli, text: str) -> None:
    Path("saved").write_text(text)
    assert "is no backup of an operator" in cli.call("auth", "operator", "restore", "OP", "saved", status=1).stderr
    assert cli.call("auth", "operator", "ls", "--names").stdout == ""


def test_a_tree_of_nsc_is_read_and_extended(nsc: Cli) -> None:
    assert nsc.call("auth", "operator", "ls", "--names").stdout == "NSCOP\n"
    assert nsc.call("auth", "account", "ls", "--names").stdout.split() == ["APP", "SYS"]
    assert nsc.call("auth", "user", "ls", "APP", "--names").stdout.split() == ["ann", "bot"]
    shown = nsc.call("auth", "user", "info", "bot", "APP").stdout
    assert "svc.{{name()}}" in shown
    before = claims(nsc, "account", "info", "APP")
    nsc.call("auth", "account", "edit", "APP", "--connections", "7")
    nsc.call("auth", "user", "add", "new", "APP", "--key", "svc")
    after = claims(nsc, "account", "info", "APP")
    before["nats"]["limits"]["conn"] = 7
    assert (after["nats"], after["iss"], after["sub"]) == (before["nats"], before["iss"], before["sub"])
    token = (nsc.home / "data/nats/nsc/stores/NSCOP/accounts/APP/APP.jwt").read_text()
    assert decode_account(token).nats.limits.conn == 7


def test_a_store_that_nsc_was_told_to_use_elsewhere(nsc: Cli) -> None:
    """As by `nsc env --store`; a directory that is gone does not count."""
    elsewhere, settings = nsc.home / "elsewhere", nsc.home / "settings"
    settings.mkdir()
    (settings / "nsc.json").write_text(json.dumps({"store_root": str(elsewhere), "operator": "NSCOP"}))
    nsc.env["NSC_HOME"] = str(settings)
    assert nsc.call("auth", "operator", "ls", "--names").stdout == "NSCOP\n"
    elsewhere.mkdir()
    assert nsc.call("auth", "operator", "ls", "--names").stdout == ""
    (nsc.home / "data" / "nats" / "nsc" / "stores" / "NSCOP").rename(elsewhere / "NSCOP")
    assert nsc.call("auth", "user", "ls", "APP", "--names").stdout.split() == ["ann", "bot"]


def test_a_damaged_token_is_named(nsc: Cli) -> None:
    path = nsc.home / "data/nats/nsc/stores/NSCOP/accounts/APP/APP.jwt"
    path.write_text(path.read_text()[:-4] + "AAAA")
    failed = nsc.call("auth", "account", "info", "APP", status=1)
    assert "APP.jwt: claim failed V2 signature verification" in failed.stderr.replace("\n  ", "")


def test_sealed_files_open_for_whom_they_are_meant(cli: Cli) -> None:
    publics = [cli.call("nkey", "gen", "curve", "-o", f"{name}.nk").stdout.strip() for name in "ab"]
    Path("text").write_bytes(b"\0secret")
    cli.call("nkey", "seal", "text", "a.nk", publics[1], "-o", "sealed")
    cli.call("nkey", "unseal", "sealed", "b.nk", publics[0], "-o", "opened")
    assert Path("opened").read_bytes() == b"\0secret"
    assert "cannot be opened" in cli.call("nkey", "unseal", "sealed", "a.nk", publics[0], status=1).stderr


def test_an_operator_is_selected_and_imported(tree: Cli) -> None:
    tree.call("auth", "operator", "add", "TWO")
    assert "--operator" in tree.call("auth", "account", "ls", status=1).stderr
    tree.call("auth", "operator", "select", "TWO")
    assert json.loads((tree.home / "config/nats/cli/config.json").read_text()) == {"select_operator": "TWO"}
    assert tree.call("auth", "account", "ls", "--names").stdout == "SYSTEM\n"
    store = tree.home / "data/nats/nsc/stores/TWO"
    Path("two.jwt").write_text((store / "TWO.jwt").read_text())
    store.rename(tree.home / "gone")
    tree.call("auth", "operator", "import", "two.jwt")
    added = tree.call("auth", "operator", "keys", "add", "TWO").stdout.strip()
    assert added in tree.call("auth", "operator", "keys", "ls", "TWO").stdout.split()
    tree.call("auth", "operator", "keys", "rm", "TWO", added, "-f")
    assert added not in tree.call("auth", "operator", "keys", "ls", "TWO").stdout.split()


def test_people_read_whose_it_is(tree: Cli) -> None:
    """The words in front are those of `nats auth`."""
    tree.call("auth", "account", "keys", "add", "APP", "svc")
    tree.call("auth", "account", "exports", "add", "news", "news.>", "APP")
    shown = {
        "Operator: OP": ("account", "info", "APP"),
        "Account: APP (A": ("user", "info", "ann", "APP"),
        "Account: APP": ("account", "exports", "info", "news.>", "APP"),
        "Key: A": ("account", "keys", "info", "APP", "svc"),
        "│ Role │ Key ": ("account", "keys", "ls", "APP"),
    }
    for words, command in shown.items():
        assert words in tree.call("auth", *command).stdout
