"""What a start makes of trusted operators: files with tokens, contradictions, accounts that have streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.config.options import Options, ResolverOptions
from slipstream.errors import ConfigError
from slipstream.server.logins.operators import operator_problems, with_tokens
from slipstream.server.server import Server
from support.jwt import ACCOUNT, OPERATOR, USER, Key, account_claims, token, user_claims

operator, other = Key(OPERATOR, "o"), Key(OPERATOR, "p")
system, app, user = Key(ACCOUNT, "SYS"), Key(ACCOUNT, "APP"), Key(USER, "u")
ROOT = token(operator, operator, {"system_account": system.public, "account_server_url": "http://127.0.0.1:1/jwt/v1"})
MEMORY = ResolverOptions("memory")
PRELOAD = {system.public: token(operator, system, account_claims()), app.public: token(operator, app, account_claims())}


def test_tokens_come_from_files_too(tmp_path: Path) -> None:
    file = tmp_path / "op.jwt"
    file.write_text(f"-----BEGIN NATS OPERATOR JWT-----\n{ROOT}\n------END NATS OPERATOR JWT------\n")
    filled = with_tokens(Options(operator=(str(file),)))
    assert filled.operator == (ROOT,)
    assert filled.system_account == system.public
    assert filled.resolver == ResolverOptions("url", url="http://127.0.0.1:1/jwt/v1/accounts")
    assert with_tokens(filled) == filled


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            Options(operator=("/nowhere.jwt",)),
            "error parsing operator JWT: open /nowhere.jwt: no such file or directory",
        ),
        (Options(operator=("eyJ.b.c",)), "error parsing operator JWT: "),
        (Options(operator=(PRELOAD[app.public],)), "error parsing operator JWT: not operator claim"),
        (Options(trusted_keys=(operator.public,), resolver_preload={"A": "a.b.c"}), "invalid account JWT"),
    ],
)
def test_what_is_no_token(options: Options, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        with_tokens(options)
    assert refused.value.message.startswith(text)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, None),
        ({"resolver": None}, "operators require an account resolver to be configured"),
        ({"trusted_keys": (other.public,)}, "conflicting options for 'TrustedKeys' and 'TrustedOperators'"),
        ({"system_account": app.public}, "system_account in config and operator JWT must be identical"),
        ({"default_sentinel": "x"}, "default sentinel JWT not valid"),
        ({"default_sentinel": token(app, user, user_claims())}, "default sentinel must be a bearer token"),
        ({"default_sentinel": token(app, user, user_claims(bearer_token=True))}, None),
        ({"resolver_pinned_accounts": ("x",)}, 'pinned account key "x" is not a valid public account nkey'),
    ],
)
def test_contradictions(more: dict[str, object], text: str | None) -> None:
    found = operator_problems(Options(**({"operator": (ROOT,), "resolver": MEMORY} | more)))  # type: ignore[arg-type]
    assert [problem.message for problem in found] == ([] if text is None else [text])


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.0.0", None),
        ("2.0.0", None),
        ("9.0.0", "expected major version 9 > server major version 2"),
        ("2.99.0", "expected minor version 99 > server minor version"),
        ("x.0.0", "got error instead: asserted server version cant parse x to int"),
        ("1.0", "got error instead: asserted server version must be of the form <major>.<minor>.<update>"),
    ],
)
def test_asserted_versions(version: str, text: str | None) -> None:
    claims = token(operator, operator, {"assert_server_version": version})
    found = [problem.message for problem in operator_problems(Options(operator=(claims,), resolver=MEMORY))]
    assert (found == []) if text is None else (len(found) == 1 and text in found[0])


async def test_the_system_account_has_to_be_there() -> None:
    with pytest.raises(ConfigError, match="error resolving system account: account missing"):
        async with Server(port=-1, operator=(ROOT,), resolver=MEMORY):
            pass


async def test_accounts_with_streams_are_there_without_clients(tmp_path: Path) -> None:
    limits = account_claims()["limits"] | {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}  # type: ignore[operator]
    preload = PRELOAD | {app.public: token(operator, app, account_claims(limits=limits))}
    (tmp_path / "jetstream" / app.public).mkdir(parents=True)
    options = Options(port=-1, operator=(ROOT,), resolver=MEMORY, resolver_preload=preload)
    async with Server(options, store_dir=str(tmp_path)) as server:
        assert server.jetstream is not None
        assert list(server.jetstream.accounts) == [app.public]
    async with Server(options) as server:
        assert list(server.hub.accounts) == ["$G", system.public]
