"""`slipstream cheat`: examples to copy, section by section."""

from __future__ import annotations

from typing import Final

import click

from slipstream.cli.connection import Failure, LocalCommand
from slipstream.cli.render import print_json
from slipstream.cli.types import json_flag

__all__ = ["SECTIONS", "cheat"]

SECTIONS: Final = {
    "pub": """\
# a hundred messages with random bodies of 100 to 1,000 letters
slipstream pub my.subject "{{Random 100 1000}}" -H "Count:{{Count}}" --count 100

# standard input, and a file
echo "hello world" | slipstream pub destination.subject
slipstream pub destination.subject --file message.txt

# wait until a stream has it on disk
slipstream pub orders.us "42 apples" --js

# an order every two seconds, until stopped
slipstream pub orders.us --count=-1 --sleep=2s "Order {{Count}} at {{Time}}"
""",
    "sub": """\
# what is published on some subjects, from now on
slipstream sub "orders.>"

# share the messages with others of the same queue
slipstream sub "jobs.*" --queue workers

# what a stream has kept, from the beginning
slipstream sub "orders.>" --stream ORDERS --all
""",
    "req": """\
# ask a service, and be one
slipstream reply "time.>" --command "date"
slipstream req time.now ""

# take answers for a second from whoever answers
slipstream req service.ping "" --replies=0 --timeout=1s
""",
    "stream": """\
# answer questions, or say everything at once
slipstream stream add ORDERS
slipstream stream add ORDERS --subjects "orders.>" --max-age 30d --defaults

# look at it
slipstream stream ls
slipstream stream info ORDERS
slipstream stream view ORDERS
slipstream stream get ORDERS 12
slipstream stream report
slipstream stream graph ORDERS

# keep a copy elsewhere, of a stream or of all
slipstream stream backup ORDERS ./backup
slipstream account backup ./backups --force

# remove messages, all messages, everything
slipstream stream rmm ORDERS 12
slipstream stream purge ORDERS
slipstream stream rm ORDERS
""",
    "consumer": """\
# a durable consumer, and its next messages
slipstream consumer add ORDERS billing --pull --defaults
slipstream consumer next ORDERS billing --count 10
slipstream consumer sub ORDERS billing

# how far it is
slipstream consumer info ORDERS billing
slipstream consumer report ORDERS

# stop it for a while
slipstream consumer pause ORDERS billing 1h
slipstream consumer resume ORDERS billing
""",
    "kv": """\
# a bucket with the last five values of each key
slipstream kv add CONFIG --history 5
slipstream kv put CONFIG theme dark
slipstream kv get CONFIG theme
slipstream kv watch CONFIG

# only if nobody was faster
slipstream kv create CONFIG lock me
slipstream kv update CONFIG theme light 7
""",
    "object": """\
# files of any size
slipstream object add PICTURES
slipstream object put PICTURES cat.png
slipstream object ls PICTURES
slipstream object get PICTURES cat.png --output copy.png
""",
    "account": """\
# who am I, what may I, what is connected
slipstream account info
slipstream account report connections --sort out-msgs --top 10

# what does that error mean
slipstream errors lookup 10058

# a key pair for a user, and a password hash for the configuration
slipstream auth nkey gen user --output user.nk
slipstream auth passwd --generate
""",
    "context": """\
# name a connection, and use it by default
slipstream context add prod --server nats://example.net:4222 --creds prod.creds
slipstream context select prod
slipstream context ls
""",
    "server": """\
# run a server that keeps its streams in ./data
slipstream server run -js -sd ./data

# look at servers, with a user of the system account
slipstream server ls --user sys --password secret
slipstream server report connections --user sys --password secret
slipstream server report health --user sys --password secret

# for monitoring systems
slipstream server check stream --stream ORDERS --msgs-critical 1

# watch what happens
slipstream events
slipstream top --user sys --password secret
""",
    "bench": """\
# publish with ten clients, and receive with five elsewhere
slipstream bench pub foo --clients 10 --msgs 10000 --size 512
slipstream bench sub foo --clients 5 --msgs 10000

# requests to a service of four instances, which take 50 microseconds each
slipstream bench service serve testservice --clients 4 --sleep 50us
slipstream bench service request testservice --clients 4 --msgs 20000

# 500 messages a second for two seconds
slipstream bench pub foo --throughput 500 --duration 2s

# publish to a stream that is created first, with an ack for each message, for many, for an atomic batch
slipstream bench js pub sync jsfoo --create --msgs 1000
slipstream bench js pub async jsfoo --batch 1000 --msgs 20000 --clients 2
slipstream bench js pub atomic jsfoo --batch 500 --msgs 20000

# read it: each client everything, or all clients together
slipstream bench js ordered --msgs 20000
slipstream bench js consume --clients 4 --msgs 20000
slipstream bench js fetch --acks none --batch 1000 --msgs 20000
slipstream bench js get batch --msgs 20000

# keys and values
slipstream bench kv put --msgs 1000
slipstream bench kv get --msgs 1000 --randomize 1000 --clients 10

# remove what is left of it
slipstream stream rm benchstream
slipstream kv rm benchbucket
""",
    "spark": """\
# keep a stream as a table, for ever
slipstream spark archive ORDERS ./lake/orders

# how much of what comes when
slipstream spark stats ORDERS
""",
}


@click.command(cls=LocalCommand)
@click.argument("section", required=False)
@click.option("--sections", is_flag=True, help="List the sections.")
@json_flag
def cheat(section: str | None, sections: bool, as_json: bool) -> None:
    """Show examples, of one SECTION or of all."""
    if section is not None and section not in SECTIONS:
        raise Failure(f"there is no section {section!r}: {', '.join(SECTIONS)}")
    if sections:
        print_json(list(SECTIONS)) if as_json else click.echo("\n".join(SECTIONS))
        return
    wanted = {section: SECTIONS[section]} if section else SECTIONS
    if as_json:
        print_json(wanted)
        return
    for name, text in wanted.items():
        if section is None:
            click.echo(click.style(f"## {name}\n", bold=True))
        for line in text.splitlines():
            click.echo(click.style(line, dim=True) if line.startswith("#") else line)
        if section is None:
            click.echo()
