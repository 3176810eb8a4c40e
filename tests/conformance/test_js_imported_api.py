"""The JetStream API for accounts without JetStream: what they import works, otherwise they are told."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.jetstream_oracle import Oracle, normalised
from support.server_process import ServerProcess
from support.servers import ServerPool

ACCOUNTS = """
accounts {{
  OWNER {{
    jetstream: enabled
    users: [{{user: owner, password: x}}]
    exports: [{{service: "$JS.API.>"}}]
  }}
  ALL {{ users: [{{user: all, password: x}}], imports: [{{service: {{account: OWNER, subject: "$JS.API.>"}}}}] }}
  RENAMED {{
    users: [{{user: renamed, password: x}}]
    imports: [{{service: {{account: OWNER, subject: "$JS.API.>"}}, to: "far.>"}}]
  }}
  PART {{
    users: [{{user: part, password: x}}]
    imports: [{{service: {{account: OWNER, subject: "$JS.API.STREAM.>"}}}}]
  }}
  INFO {{ users: [{{user: info, password: x}}], imports: [{info}] }}
  NONE {{ users: [{{user: none, password: x}}] }}
}}
jetstream {{ store_dir: "{store}" }}
"""
IMPORT = '{service: {account: OWNER, subject: "$JS.API.INFO"}}'
CALLS = ["$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.S", "$JS.API.CONSUMER.NAMES.S", "far.INFO"]
USERS = ["all", "renamed", "part", "info", "none"]


def answers(server: ServerProcess, user: str) -> list[Any]:
    client = Oracle(server.port, f'"user":"{user}","pass":"x"')
    found = []
    for call in CALLS:
        header, body = normalised(client.request(call, b"", None, 1)[0])
        if isinstance(body, dict):
            body.pop("api", None)  # the level is the server's own
            body.pop("created", None)
            body.pop("ts", None)
            body.get("config", {}).pop("metadata", None)
        found.append((call, header, body))
    client.close()
    return found


def pair(pool: ServerPool, directory: Path, info: str = IMPORT) -> list[ServerProcess]:
    made = []
    for kind in ("ours", "real"):
        server = pool.prepared(kind, ACCOUNTS.format(store=directory / kind, info=info), ()).start()
        owner = Oracle(server.port, '"user":"owner","pass":"x"')
        config = {"name": "S", "subjects": ["s"], "storage": "memory"}
        owner.request("$JS.API.STREAM.CREATE.S", json.dumps(config).encode(), None, 1)
        owner.close()
        made.append(server)
    return made


def test_what_an_account_imports_of_the_api(server_pool: ServerPool, tmp_path: Path) -> None:
    servers = pair(server_pool, tmp_path)
    for user in USERS:
        ours, theirs = (answers(server, user) for server in servers)
        assert ours == theirs, user
    for server in servers:
        server.end()


@pytest.mark.parametrize("before", ["", IMPORT])
def test_a_reload_gives_and_takes_imports_of_the_api(server_pool: ServerPool, tmp_path: Path, before: str) -> None:
    (ours, *others) = pair(server_pool, tmp_path, before)
    first = answers(ours, "info")
    after = IMPORT if not before else ""
    ours.reload(ACCOUNTS.format(store=tmp_path / "ours", info=after))
    expected = pair(server_pool, tmp_path / "again", after)
    assert answers(ours, "info") == answers(expected[1], "info") != first
    for server in (ours, *others, *expected):
        server.end()
