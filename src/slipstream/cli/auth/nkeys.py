"""`slipstream nkey` and `slipstream auth nkey`: keys without a server. Seeds are secret, shown only when made."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Final

import click

from slipstream.auth.nkeys import KeyKind, decode_public_key, verify
from slipstream.cli.auth.files import read_text, write_secret
from slipstream.cli.auth.keyring import KeyPair
from slipstream.cli.connection import Command, Failure
from slipstream.cli.lazy import LazyGroup, Verb

__all__ = ["check", "gen", "nkey", "seal", "show", "sign", "unseal"]

_KINDS: Final = {**{kind.name.lower(): kind for kind in KeyKind}, "x25519": KeyKind.CURVE}


_HERE: Final = "slipstream.cli.auth.nkeys"
NKEY: Final = {
    "gen": Verb(f"{_HERE}:gen", "Make a key.", ("generate", "new")),
    "show": Verb(f"{_HERE}:show", "Show the public key of a seed.", ()),
    "sign": Verb(f"{_HERE}:sign", "Sign a file.", ()),
    "check": Verb(f"{_HERE}:check", "Check a signature.", ("verify",)),
    "seal": Verb(f"{_HERE}:seal", "Encrypt a file for a curve key.", ("encrypt", "enc")),
    "unseal": Verb(f"{_HERE}:unseal", "Decrypt a file.", ("open", "decrypt", "dec")),
}


@click.group(cls=LazyGroup, entries=NKEY)
def nkey() -> None:
    """Make and use nkeys: users without a secret on the server."""


_output = click.option("--output", "-o", metavar="FILE", default="", help="Write to a file that only you can read.")


@click.command(cls=Command)
@click.argument("kind", type=click.Choice(sorted(_KINDS)), default="user")
@_output
def gen(kind: str, output: str) -> None:
    """Make a key of KIND: prints its seed, which is secret, and its public key."""
    key = KeyPair.new(_KINDS[kind])
    if output:
        try:
            place = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise Failure(f"{output} is there already") from error
        with os.fdopen(place, "w") as file:
            file.write(f"{key.seed}\n")
    else:
        click.echo(key.seed)
    click.echo(key.public)


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def show(file: str) -> None:
    """Show the public key of the seed in FILE."""
    click.echo(KeyPair.read(read_text(file)).public)


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("seed", type=click.Path(exists=True, dir_okay=False))
def sign(file: str, seed: str) -> None:
    """Sign FILE with the key in the file SEED; prints the signature."""
    key = KeyPair.read(read_text(seed))
    if key.kind == KeyKind.CURVE:
        raise Failure("a curve key does not sign")
    click.echo(base64.urlsafe_b64encode(key.sign(Path(file).read_bytes())).decode().rstrip("="))


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


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("key", type=click.Path(exists=True, dir_okay=False))
@click.argument("recipient")
@_output
@click.option("--b64/--no-b64", default=True, show_default=True, help="Write base64.")
def seal(file: str, key: str, recipient: str, output: str, b64: bool) -> None:
    """Encrypt FILE with the curve key in the file KEY, for the public curve key RECIPIENT."""
    sealed = _curve(key).seal(Path(file).read_bytes(), _other_curve(recipient))
    _emit(base64.b64encode(sealed) + b"\n" if b64 else sealed, output)


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("key", type=click.Path(exists=True, dir_okay=False))
@click.argument("sender")
@_output
@click.option("--b64/--no-b64", default=True, show_default=True, help="Read base64.")
def unseal(file: str, key: str, sender: str, output: str, b64: bool) -> None:
    """Decrypt FILE with the curve key in the file KEY; it came from the public curve key SENDER."""
    sealed = Path(file).read_bytes()
    if b64:
        try:
            sealed = base64.b64decode(sealed.strip(), validate=True)
        except ValueError as error:
            raise Failure(f"{file} is not base64") from error
    _emit(_curve(key).unseal(sealed, _other_curve(sender)), output)


def _curve(file: str) -> KeyPair:
    key = KeyPair.read(read_text(file))
    if key.kind != KeyKind.CURVE:
        raise Failure(f"{file} is no curve key")
    return key


def _other_curve(text: str) -> bytes:
    raw = decode_public_key(_word(text), KeyKind.CURVE)
    if raw is None:
        raise Failure(f"{text} is no public curve key")
    return raw


def _emit(content: bytes, output: str) -> None:
    if output:
        write_secret(output, content)
    else:
        click.echo(content, nl=False)
