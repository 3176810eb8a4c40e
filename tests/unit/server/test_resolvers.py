"""Where the tokens of accounts are kept: a directory as nats-server has it, and addresses (`resolver`)."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from slipstream.auth.jwt.token import peek_end
from slipstream.config.listener_options import TLSOptions
from slipstream.config.options import ResolverOptions
from slipstream.server.logins.resolvers import UrlResolver
from slipstream.server.logins.token_directory import DirectoryError, TokenDirectory
from slipstream.server.turns import Turns
from slipstream.units import SECOND_NS
from support.jwt import ACCOUNT, OPERATOR, Key, account_claims, token
from support.keys import url_base64
from support.normalise import Json

operator = Key(OPERATOR, "o")
keys = [Key(ACCOUNT, f"account {number}") for number in range(5)]
NOW_S = 1_800_000_000


def text(key: Key, at: int = 0, **top: Json) -> str:
    """The token of an account, issued at some time."""
    return token(operator, key, account_claims(), iat=1_700_000_000 + at, **top)


class World:
    """A directory, and a clock that stands still until it is set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_ns = NOW_S * SECOND_NS

    def open(self, kind: str = "full", **options: object) -> TokenDirectory:
        chosen = ResolverOptions(kind, dir=str(self.path / "jwts"), **options)  # type: ignore[arg-type]  # of that class
        return TokenDirectory(chosen, lambda: self.now_ns)

    def files(self) -> list[str]:
        return sorted(file.name for file in (self.path / "jwts").iterdir())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_kept_and_found_again(world: World) -> None:
    directory = world.open()
    assert directory.load(keys[0].public) == ""
    assert directory.save(keys[0].public, text(keys[0]))
    assert not directory.save(keys[0].public, text(keys[0])), "the same again"
    assert directory.save(keys[1].public, text(keys[1]))
    again = world.open()
    assert dict(again.tokens()) == {key.public: text(key) for key in keys[:2]}
    assert again.digest == directory.digest
    assert world.files() == sorted(f"{key.public}.jwt" for key in keys[:2])


def test_the_digest_is_the_sum_of_all(world: World) -> None:
    directory = world.open()
    for key in keys[:3]:
        directory.save(key.public, "old")
        directory.save(key.public, text(key))
    digests = [hashlib.sha256(text(key).encode()).digest() for key in keys[:3]]
    assert directory.digest == bytes(a ^ b ^ c for a, b, c in zip(*digests, strict=True))


@pytest.mark.parametrize("name", ["", "../x", "a/b", "B" * 56, keys[0].public[:-1], operator.public])
def test_only_keys_of_accounts_become_files(world: World, name: str) -> None:
    """CVE-2022-28357: names of accounts that other servers sent were paths."""
    directory = world.open()
    with pytest.raises(DirectoryError, match="invalid public key"):
        directory.save(name, "x")
    assert directory.load(name) == ""
    assert world.files() == []


def test_only_keys_of_accounts_name_files_to_remove(world: World) -> None:
    directory = world.open(hard_delete=True)
    beside = world.path / "beside.jwt"
    beside.write_text("of somebody else")
    assert not directory.delete("../beside")
    assert beside.exists()


def test_what_is_answered_is_on_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever pushes or deletes a token is told so afterwards: a power cut must not take it back."""
    calls: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(fd: int) -> None:
        calls.append(f"sync {Path(os.readlink(f'/proc/self/fd/{fd}')).name.removeprefix(keys[0].public)}")
        real_sync(fd)

    def replace(old: str, new: str) -> None:
        calls.append("replace")
        real_replace(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    directory = world.open()
    assert calls == [f"sync {world.path.name}"], "the directory itself was made"
    calls.clear()
    directory.save(keys[0].public, text(keys[0]))
    assert calls == ["sync .jwt.new", "replace", "sync jwts"]
    calls.clear()
    assert directory.delete(keys[0].public)
    assert calls == ["replace", "sync jwts"]


def test_foreign_files_are_left_alone(world: World) -> None:
    world.open()
    for name in ("x.jwt", f"{keys[0].public}.jwt.deleted", "notes"):
        (world.path / "jwts" / name).write_text("x")
    assert len(world.open()) == 0
    assert len(world.files()) == 3


def test_limit_of_a_full_directory(world: World) -> None:
    directory = world.open(limit=1)
    directory.save(keys[0].public, text(keys[0]))
    with pytest.raises(DirectoryError, match="jwt store is full"):
        directory.save(keys[1].public, text(keys[1]))
    assert directory.save(keys[0].public, text(keys[0], 1)), "another token of the same account needs no room"


def test_a_cache_forgets_what_was_not_used_for_longest(world: World) -> None:
    directory = world.open("cache", limit=2)
    for key in keys[:2]:
        directory.save(key.public, text(key))
    directory.load(keys[0].public)
    directory.save(keys[2].public, text(keys[2]))
    assert {name for name, _ in directory.tokens()} == {keys[0].public, keys[2].public}
    assert len(world.files()) == 2


def test_a_cache_keeps_for_a_while(world: World) -> None:
    directory = world.open("cache", ttl_ns=10 * SECOND_NS)
    for key in keys[:2]:
        directory.save(key.public, text(key))
    world.now_ns += 6 * SECOND_NS
    directory.load(keys[0].public)
    world.now_ns += 6 * SECOND_NS
    directory.expire()
    assert world.files() == [f"{keys[0].public}.jwt"]


def test_tokens_that_have_ended_go(world: World) -> None:
    directory = world.open()
    directory.save(keys[0].public, text(keys[0], exp=NOW_S + 5))
    directory.save(keys[1].public, text(keys[1]))
    world.now_ns += 6 * SECOND_NS
    assert [name for name, _ in directory.tokens()] == [keys[1].public]
    directory.expire()
    assert world.files() == [f"{keys[1].public}.jwt"]


@pytest.mark.parametrize(("hard", "left"), [(False, [f"{keys[0].public}.jwt.deleted"]), (True, [])])
def test_deleted(world: World, hard: bool, left: list[str]) -> None:
    directory = world.open(allow_delete=True, hard_delete=hard)
    directory.save(keys[0].public, text(keys[0]))
    assert directory.delete(keys[0].public)
    assert not directory.delete(keys[0].public)
    assert world.files() == left
    assert len(world.open()) == 0


def test_the_newer_token_stays(world: World) -> None:
    directory = world.open()
    name = keys[0].public
    assert directory.save_if_newer(name, text(keys[0], 5))
    assert not directory.save_if_newer(name, text(keys[0], 4))
    assert not directory.save_if_newer(name, text(keys[0], 5))
    assert directory.save_if_newer(name, text(keys[0], 6))
    with pytest.raises(DirectoryError, match="do not match"):
        directory.save_if_newer(name, text(keys[1], 7))
    with pytest.raises(DirectoryError, match="expected 3 chunks"):
        directory.save_if_newer(name, "no token")
    assert directory.load(name) == text(keys[0], 6)


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A server of tokens behind TLS, and the file of who vouches for it."""
    issuer = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert("127.0.0.1").configure_cert(context)
    issuer.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    class Tokens(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in (f"/a/{keys[0].public}", f"/a/cut/{keys[0].public}")
            self.send_response(200 if known else 404)
            if "cut" in self.path:
                self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(text(keys[0]).encode() if known else b"")

        def log_message(self, *_args: object) -> None:
            """Quietly."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tokens) as server:
        server.handle_error = lambda *_args: None  # type: ignore[method-assign]  # a refused handshake is expected
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}/a", str(tmp_path / "ca.pem")
        server.shutdown()
        thread.join()


def _resolver(url: str, tls: TLSOptions | None) -> UrlResolver:
    return UrlResolver(url, tls, Turns(lambda _level, _text: None, list))


def test_tls_to_the_address(authority: tuple[str, str]) -> None:
    """`resolver_tls`: who vouches for the address."""
    url, ca_file = authority
    for tls in (TLSOptions(ca_file=ca_file), TLSOptions(insecure=True)):
        resolver = _resolver(url, tls)
        assert resolver.fetch_now(keys[0].public) == text(keys[0])
        with pytest.raises(OSError, match=rf'could not fetch <"{url}/x">: 404 Not Found'):
            resolver.fetch_now("x")
        resolver.close()
    cut_short = _resolver(f"{url}/cut", TLSOptions(ca_file=ca_file))
    with pytest.raises(OSError, match="unexpected EOF"):
        cut_short.fetch_now(keys[0].public)
    cut_short.close()
    stranger = _resolver(url, None)
    with pytest.raises(OSError, match="certificate verify failed"):
        stranger.fetch_now(keys[0].public)
    stranger.close()


def test_a_password_in_the_address_is_not_shown() -> None:
    resolver = _resolver("http://user:secret@127.0.0.1:1/", None)
    with pytest.raises(OSError, match="could not fetch") as refused:
        resolver.fetch_now("x")
    assert "secret" not in str(refused.value)
    resolver.close()


@pytest.mark.parametrize(
    ("payload", "end_s"),
    [
        ({}, 0),
        ({"exp": 7}, 7),
        ({"EXP": 7}, 7),
        ({"name": "exp"}, 0),
        ({"nats": {"exp": 7}}, 0),
        ({"exp": "7"}, 0),
    ],
)
def test_when_a_token_ends(payload: Json, end_s: int) -> None:
    body = json.dumps(payload).encode()
    assert peek_end(f"x.{url_base64(body)}.y") == end_s
    escaped = body.replace(b'"exp"', b'"\\u0065xp"')
    assert peek_end(f"x.{url_base64(escaped)}.y") == end_s


@pytest.mark.parametrize("text", ["", "x", "x.!.y", "x.bm8.y", "x.W10.y"])
def test_what_is_no_token_has_no_end(text: str) -> None:
    assert peek_end(text) == 0
