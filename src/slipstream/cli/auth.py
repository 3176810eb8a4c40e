"""`slipstream nkey` and `slipstream auth`: keys without a server. Seeds are secret and are shown only when made."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Final

import click

from slipstream.auth.nkeys import KeyKind, encode_public_key, verify
from slipstream.cli.connection import Command, Failure
from slipstream.cli.lazy import LazyGroup, Verb
from slipstream.client.credentials import decode_seed, encode_seed

__all__ = ["auth", "check", "gen", "nkey", "show", "sign"]

_KINDS: Final = {kind.name.lower(): kind for kind in KeyKind if kind != KeyKind.CURVE}


_HERE: Final = "slipstream.cli.auth"
NKEY: Final = {
    "gen": Verb(f"{_HERE}:gen", "Make a key.", ("generate", "new")),
    "show": Verb(f"{_HERE}:show", "Show the public key of a seed.", ()),
    "sign": Verb(f"{_HERE}:sign", "Sign a file.", ()),
    "check": Verb(f"{_HERE}:check", "Check a signature.", ("verify",)),
}


@click.group(cls=LazyGroup, entries=NKEY)
def nkey() -> None:
    """Make and use nkeys: users without a secret on the server."""


@click.command(cls=Command)
@click.argument("kind", type=click.Choice(sorted(_KINDS)), default="user")
@click.option("--output", "-o", default="", help="Write the seed to a file that only you can read.")
def gen(kind: str, output: str) -> None:
    """Make a key of KIND: prints its seed, which is secret, and its public key."""
    from nacl.signing import SigningKey

    key = SigningKey.generate()
    seed = encode_seed(_KINDS[kind], bytes(key))
    public = encode_public_key(_KINDS[kind], bytes(key.verify_key))
    if output:
        try:
            place = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise Failure(f"{output} is there already") from error
        with os.fdopen(place, "w") as file:
            file.write(f"{seed}\n")
    else:
        click.echo(seed)
    click.echo(public)


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def show(file: str) -> None:
    """Show the public key of the seed in FILE."""
    from nacl.signing import SigningKey

    kind, seed = decode_seed(Path(file).read_text())
    if kind == KeyKind.CURVE:
        raise Failure("the seed is one of a curve key")
    click.echo(encode_public_key(kind, bytes(SigningKey(seed).verify_key)))


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("seed", type=click.Path(exists=True, dir_okay=False))
def sign(file: str, seed: str) -> None:
    """Sign FILE with the key in the file SEED; prints the signature."""
    from nacl.signing import SigningKey

    _, secret = decode_seed(Path(seed).read_text())
    signature = SigningKey(secret).sign(Path(file).read_bytes()).signature
    click.echo(base64.urlsafe_b64encode(signature).decode().rstrip("="))


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("signature")
@click.argument("public")
def check(file: str, signature: str, public: str) -> None:
    """Check that SIGNATURE of FILE was made by the key PUBLIC; both may be given as files that hold them."""
    signature, public = _word(signature), _word(public)
    if public.startswith("S"):
        raise Failure("that is a seed: its public key is enough, `slipstream nkey show` prints it")
    if not verify(public, None, Path(file).read_bytes(), signature):
        raise Failure("the signature does not fit")
    click.echo("Signature OK")


def _word(text: str) -> str:
    """A word, or what the file of that name holds."""
    try:
        return Path(text).read_text().strip()
    except (OSError, ValueError):
        return text


AUTH = {
    "nkey": Verb("slipstream.cli.auth:nkey", "Make and use nkeys.", ("nk",)),
    "passwd": Verb("slipstream.cli.server.local:passwd", "Hash a password.", ("pass", "bcrypt")),
}


@click.group(cls=LazyGroup, entries=AUTH)
def auth() -> None:
    """Make keys and password hashes."""
