"""`stream schema`: schemas of payloads, registered for subjects of a stream."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import click

from slipstream.cli.connection import Command, CommandGroup, Failure, Session
from slipstream.cli.jetstream import choose_stream, user_metadata
from slipstream.cli.link import Reply
from slipstream.cli.prompts import confirm_or_stop
from slipstream.cli.render import Columns, Table, print_json, say
from slipstream.cli.types import force_flag, json_flag, list_option

__all__ = ["schema"]


@click.group(cls=CommandGroup)
def schema() -> None:
    """Register schemas of payloads."""


@schema.command("add", cls=Command, short_help="Register a schema, or its next version.")
@click.argument("stream")
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@list_option("--subjects", "subjects", help="What it is about; all subjects of the stream by default.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["json", "avro", "protobuf"]),
    default=None,
    help="Language of the definition; json by default.",
)
@click.option("--message", default="", help="Protobuf: the full name of the type.")
@click.option(
    "--evolution",
    type=click.Choice(["backward", "forward", "full", "none"]),
    default=None,
    help="What a new version must not break; backward by default.",
)
@click.pass_obj
def add(
    session: Session,
    stream: str,
    name: str,
    file: Path,
    subjects: list[str],
    kind: str | None,
    message: str,
    evolution: str | None,
) -> None:
    """Register the definition in FILE as NAME for payloads of STREAM.

    A name that is there already gets a new version, if that keeps what its evolution promises to readers. FILE has JSON
    Schema, an Avro schema, or for Protobuf what `protoc --include_imports -o FILE` writes.
    """
    from slipstream.schemas.registered import SCHEMA_PREFIX, Evolution, RegisteredSchema, SchemaFormat, schemas_in

    config = _config(session, stream)
    known = schemas_in(config["metadata"]).get(name)
    wanted = SchemaFormat(kind) if kind else known.format if known else SchemaFormat.JSON
    content = file.read_bytes()
    try:
        definition = base64.b64encode(content).decode() if wanted is SchemaFormat.PROTOBUF else content.decode()
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is no text") from error
    chosen = Evolution(evolution) if evolution else known.evolution if known else Evolution.BACKWARD
    versions = known.versions if known else ()
    if not versions or versions[-1] != definition:
        versions = (*versions, definition)
    made = RegisteredSchema(
        subjects=tuple(subjects) or (known.subjects if known else tuple(config.get("subjects") or (">",))),
        format=wanted,
        versions=versions,
        evolution=chosen,
        message=message or (known.message if known else ""),
    )
    config["metadata"][SCHEMA_PREFIX + name] = made.text()
    session.link().api(f"STREAM.UPDATE.{stream}", config)
    say(f"Schema {name} of Stream {stream} has version {len(versions)}")


@schema.command("enforce", cls=Command, short_help="Say what becomes of messages that do not fit.")
@click.argument("stream")
@click.argument("what", type=click.Choice(["reject", "deadletter", "off"]))
@click.option("--letters", default="", metavar="SUBJECT", help="With deadletter: kept under SUBJECT and their own.")
@click.pass_obj
def enforce(session: Session, stream: str, what: str, letters: str) -> None:
    """Have messages of STREAM checked when they are published, or not.

    They are refused (reject), or stored in the same stream under another subject (deadletter).
    """
    from slipstream.jetstream.config.schemed import CHECK_KEY, LETTERS_KEY

    config = _config(session, stream)
    for key in (CHECK_KEY, LETTERS_KEY):
        config["metadata"].pop(key, None)
    if what != "off":
        config["metadata"][CHECK_KEY] = what
    if letters:
        config["metadata"][LETTERS_KEY] = letters
    session.link().api(f"STREAM.UPDATE.{stream}", config)
    say(f"Stream {stream}: {what}")


@schema.command("ls", cls=Command)
@click.argument("stream", metavar="[STREAM]", required=False)
@json_flag
@click.pass_obj
def ls(session: Session, stream: str | None, as_json: bool) -> None:
    """List the schemas of STREAM."""
    from slipstream.schemas.registered import schemas_in

    stream = choose_stream(session, stream, internal=session.show_all)
    found = schemas_in(_config(session, stream)["metadata"])
    if as_json:
        print_json({name: _document(one) for name, one in found.items()})
        return
    table = Table(f"Schemas of {stream}", "Name", "Format", "Subjects", "Versions", "Evolution")
    for name, one in found.items():
        table.add(name, one.format, ", ".join(one.subjects), len(one.versions), one.evolution)
    table.print()


@schema.command("info", cls=Command)
@click.argument("stream")
@click.argument("name")
@click.option("--version", type=click.IntRange(min=1), default=None, help="The newest by default.")
@click.option("--definition", is_flag=True, help="Only the definition, as it was registered.")
@click.pass_obj
def info(session: Session, stream: str, name: str, version: int | None, definition: bool) -> None:
    """Show the schema NAME of STREAM."""
    one = _found(_config(session, stream), name)
    number = version or len(one.versions)
    if number > len(one.versions):
        raise Failure(f"schema {name} has {len(one.versions)} versions")
    text = one.versions[number - 1]
    if definition:
        click.echo(base64.b64decode(text) if one.format == "protobuf" else text)
        return
    columns = Columns(f"Schema {name} of Stream {stream}")
    columns.row("Format", one.format)
    columns.row("Message", one.message, when=one.message)
    columns.row("Subjects", ", ".join(one.subjects))
    columns.row("Evolution", one.evolution)
    columns.row("Version", f"{number} of {len(one.versions)}")
    columns.print()
    if one.format != "protobuf":
        click.echo(text)


@schema.command("check", cls=Command, short_help="Check whether a file fits as a payload.")
@click.argument("stream")
@click.argument("subject")
@click.argument("file", default="-")
@click.pass_obj
def check(session: Session, stream: str, subject: str, file: str) -> None:
    """Check whether FILE, or standard input, fits as a payload of SUBJECT in STREAM."""
    from slipstream.schemas.payloads import SchemaChecks
    from slipstream.schemas.registered import schema_for, schemas_in

    schemas = schemas_in(_config(session, stream)["metadata"])
    name = schema_for(schemas, subject.encode())
    if name is None:
        raise Failure(f"no schema of Stream {stream} is about {subject}")
    payload = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    problem = SchemaChecks({name: schemas[name]}).problem(subject.encode(), payload)
    if problem is not None:
        raise Failure(f"does not fit the schema {name}: {problem[1]}")
    say(f"Fits the schema {name}")


@schema.command("rm", cls=Command, short_help="Forget a schema.")
@click.argument("stream")
@click.argument("name")
@force_flag
@click.pass_obj
def rm(session: Session, stream: str, name: str, force: bool) -> None:
    """Forget the schema NAME of STREAM, with all versions."""
    from slipstream.schemas.registered import SCHEMA_PREFIX

    config = _config(session, stream)
    _found(config, name)
    confirm_or_stop(f"Really forget Schema {name} of Stream {stream}", force=force)
    del config["metadata"][SCHEMA_PREFIX + name]
    session.link().api(f"STREAM.UPDATE.{stream}", config)
    say(f"Schema {name} of Stream {stream} is forgotten")


def _config(session: Session, stream: str) -> Reply:
    config = session.link().api(f"STREAM.INFO.{stream}")["config"]
    return {**config, "metadata": dict(user_metadata(config))}


def _found(config: Reply, name: str) -> Any:
    from slipstream.schemas.registered import schemas_in

    found = schemas_in(config["metadata"]).get(name)
    if found is None:
        raise Failure(f"there is no schema {name}; `slipstream stream schema ls` lists them")
    return found


def _document(one: Any) -> dict[str, Any]:
    return {
        "format": one.format,
        "subjects": list(one.subjects),
        "evolution": one.evolution,
        "message": one.message,
        "versions": list(one.versions),
    }
