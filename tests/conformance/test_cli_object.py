"""`slipstream object`: every verb as a process in a terminal, its screens as they are; and what nats-py makes of it."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Cli, steady
from support.nats_py import connected, run
from support.server_process import ServerProcess

LS = """\
╭──────────────────────────────────────────╮
│        Bucket Contents for 'PICS'        │
├─────────┬─────────┬────────┬─────────────┤
│ Name    │    Size │ Chunks │ Description │
├─────────┼─────────┼────────┼─────────────┤
│ cat.png │ 293 KiB │      3 │ A black cat │
╰─────────┴─────────┴────────┴─────────────╯
"""

CAT = b"miaow " * 50_000
DIGEST = base64.urlsafe_b64encode(hashlib.sha256(CAT).digest()).decode()

OBJECT = f"""\
Object information for PICS > cat.png

        Description: A black cat
               Size: 293 KiB
  Modification Time: TTTTTTTTTTTTTTTTTTT
             Chunks: 3
             Digest: SHA-256 {DIGEST}
      Header Colour: black
"""

STORE = """\
Information for Object Store Bucket PICS created TTTTTTTTTTTTTTTTTTT

Configuration:

          Bucket Name: PICS
          Description: Pictures
              Storage: File
                 Size: 293 KiB
  Maximum Bucket Size: unlimited
                  TTL: unlimited
               Sealed: false
           Compressed: false
     JetStream Stream: OBJ_PICS
"""


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """A command line, in a directory of its own, with a store of one object; all stores are removed again."""
    monkeypatch.chdir(tmp_path)
    cli = Cli(tmp_path, server.url)
    Path("cat.png").write_bytes(CAT)
    cli.call("object", "add", "PICS", "--description", "Pictures")
    cli.call("object", "put", "PICS", "cat.png", "--description", "A black cat", "-H", "Colour:black")
    yield cli
    for name in cli.call("obj", "ls", "-n").stdout.split():
        cli.call("obj", "del", name, "-f")


def test_add_and_edit(cli: Cli) -> None:
    screen = cli.screen(
        "object", "add", "ALL", "--ttl", "1h", "--storage", "m", "--max-bucket-size", "1MB", "--compress"
    )
    for line in ("Storage: Memory", "Maximum Bucket Size: 1.0 MiB", "TTL: 1h0m0s", "Compressed: true"):
        assert line in screen
    with cli.terminal("object", "edit", "ALL", "--description", "Everything") as terminal:
        terminal.expect('+ description: "Everything"').answer("Really edit object store ALL?", "y")
        terminal.expect("Description: Everything").finish()
    assert "No difference" in cli.call("obj", "edit", "ALL", "--description", "Everything", "-f").stdout
    assert cli.json("obj", "edit", "ALL", "--metadata", "a=b", "--json", "-f")["config"]["metadata"]["a"] == "b"
    assert "is no name of an object store" in cli.call("obj", "add", "a.b", status=1).stderr


def test_ls_and_info(cli: Cli) -> None:
    assert cli.screen("object", "ls", "PICS") == LS
    assert cli.call("obj", "ls", "PICS", "-n").stdout == "cat.png\n"
    assert [meta["name"] for meta in cli.json("obj", "ls", "PICS", "--json")] == ["cat.png"]
    assert steady(cli.screen("object", "info", "PICS", "cat.png")) == OBJECT
    assert steady(cli.screen("object", "info", "PICS")) == STORE
    assert cli.json("obj", "info", "PICS", "cat.png", "-j")["size"] == len(CAT)
    rows = cli.screen("object", "ls").splitlines()
    assert [cell.strip() for cell in rows[5].split("│")[1:3]] == ["PICS", "Pictures"]
    assert "there is no object store 'NOPE'" in cli.call("obj", "info", "NOPE", status=1).stderr
    assert "there is no object 'dog' in PICS" in cli.call("obj", "info", "PICS", "dog", status=1).stderr
    cli.call("obj", "add", "EMPTY")
    assert "No entries found" in cli.call("obj", "ls", "EMPTY").stdout


def test_put_shows_progress_and_asks_before_it_replaces(cli: Cli) -> None:
    Path("cat.png").write_bytes(b"a new cat")
    with cli.terminal("object", "put", "PICS", "cat.png") as terminal:
        terminal.answer("Replace PICS > cat.png? (y/N)", "y").expect("Uploading").expect("100%")
        terminal.expect("Size: 9 B").finish()
    state = cli.json("obj", "info", "PICS", "-j")["state"]
    assert state["messages"] == 2, "the chunks of the old cat are gone"
    assert "give --force" in cli.call("obj", "put", "PICS", "cat.png", status=1).stderr
    cli.run("object", "put", "PICS", "--name", "from stdin", "--chunk-size", "2", stdin=b"12345")
    assert cli.json("obj", "info", "PICS", "from stdin", "-j")["chunks"] == 3
    assert "give --name" in cli.call("obj", "put", "PICS", status=1).stderr
    assert "No such file" in cli.call("obj", "put", "PICS", "missing", status=1).stderr
    assert "there is no object store" in cli.call("obj", "put", "NOPE", "cat.png", status=1).stderr
    assert cli.json("obj", "info", "PICS", "-j")["state"]["consumer_count"] == 0


def test_get_shows_progress_and_checks(cli: Cli) -> None:
    with cli.terminal("object", "get", "PICS", "cat.png", "-O", "copy.png") as terminal:
        terminal.expect("Downloading").expect("100%").expect("Wrote: 293 KiB to copy.png").finish()
    assert Path("copy.png").read_bytes() == CAT
    assert cli.run("object", "get", "PICS", "cat.png", "-O", "-").stdout == CAT
    with cli.terminal("object", "get", "PICS", "cat.png") as terminal:
        terminal.answer("Overwrite cat.png?", "n").expect("nothing was changed").finish(1)
    assert "there is no object 'dog'" in cli.call("obj", "get", "PICS", "dog", status=1).stderr
    # A chunk that goes missing is noticed, and no half file is left behind.
    cli.call("stream", "rmm", "OBJ_PICS", "2", "-f")
    os.unlink("copy.png")
    assert "2 of 3 chunks" in cli.call("obj", "get", "PICS", "cat.png", "-O", "copy.png", status=1).stderr
    assert not [place for place in Path().iterdir() if "copy" in place.name]


def test_watch(cli: Cli) -> None:
    with cli.terminal("object", "watch", "PICS") as terminal:
        terminal.expect("PUT PICS > cat.png: 293 KiB in 3 chunks")
        cli.call("obj", "del", "PICS", "cat.png", "-f")
        terminal.expect("DEL PICS > cat.png").interrupt().finish()
    assert cli.json("obj", "ls", "PICS", "--json") == []


def test_long_names_break_nothing_but_lines(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x" * 2048)
    name = "pictures/of/the/cats/of/all/our/neighbours/cat.png"
    screen = cli.screen("object", "put", "PICS", str(tmp_path / "small"), "--name", name, "-f", columns=60)
    assert f"Object information for PICS >\n{name}\n" in screen
    deleted = cli.screen("object", "del", "PICS", name, "-f", columns=60)
    assert deleted == f"Object PICS >\n{name} was\ndeleted\n"


def test_delete_and_seal(cli: Cli) -> None:
    with cli.terminal("object", "seal", "PICS") as terminal:
        terminal.answer("Seal object store PICS", "n").expect("nothing was changed").finish(1)
    cli.call("obj", "seal", "PICS", "-f")
    assert "Sealed: true" in cli.call("obj", "info", "PICS").stdout
    assert cli.call("obj", "put", "PICS", "cat.png", "-f", status=1).stderr.startswith("slipstream: error: ")
    cli.call("obj", "add", "MORE")
    cli.call("obj", "put", "MORE", "cat.png")
    with cli.terminal("object", "del", "MORE", "cat.png") as terminal:
        terminal.answer("Delete 293 KiB object MORE > cat.png?", "y").finish()
    with cli.terminal("object", "del", "MORE") as terminal:
        terminal.answer("Delete object store MORE with all its objects?", "y").finish()
    assert "give --force" in cli.call("obj", "del", "PICS", status=1).stderr


def test_nats_py_reads_what_this_writes_and_the_other_way_round(cli: Cli, server: ServerProcess) -> None:
    async def scenario() -> None:
        async with connected(server) as client:
            store = await client.jetstream().object_store("PICS")
            found = await store.get("cat.png")
            assert found.data == CAT
            assert (found.info.description, found.info.headers) == ("A black cat", {"Colour": ["black"]})
            await store.put("dog.png", b"wow " * 40_000)
            made = await client.jetstream().create_object_store("THEIRS", description="By nats-py")
            await made.put("hello", b"world")

    run(scenario)
    assert cli.run("object", "get", "PICS", "dog.png", "-O", "-").stdout == b"wow " * 40_000
    assert cli.run("object", "get", "THEIRS", "hello", "-O", "-").stdout == b"world"
    assert cli.call("obj", "ls", "PICS", "-n").stdout == "cat.png\ndog.png\n"
    assert "By nats-py" in cli.call("obj", "ls").stdout
