"""`slipstream auth account push` and `query`: accounts in the servers' resolvers, over the system account."""

from __future__ import annotations

import click

from slipstream.auth.jwt.token import InvalidToken, decode_account
from slipstream.auth.nkeys import KeyKind, is_public_key
from slipstream.cli.auth.choosing import choose_account, choose_operator, operator_flag
from slipstream.cli.auth.files import write_secret
from slipstream.cli.auth.show import show_account
from slipstream.cli.connection import Command, Failure, Session
from slipstream.cli.render import counted, say
from slipstream.cli.system import ask_all, ask_servers

__all__ = ["push", "query"]


@click.command(cls=Command)
@click.argument("account", required=False)
@operator_flag
@click.option("--show", is_flag=True, help="Show the token first.")
@click.pass_obj
def push(session: Session, account: str | None, operator: str, show: bool) -> None:
    """Send ACCOUNT to all servers. The connection has to be one of the system account."""
    _owner, found = choose_account(operator, account)
    if show:
        click.echo(f"Account JWT for {found.name}\n\n{found.text}\n")
    link = session.link()
    expected = len(ask_servers(link, ""))
    say(f"Updating account {found.name} ({found.subject}) on {counted(expected, 'server')}\n")
    failed = 0
    answers = ask_all(link, f"$SYS.REQ.ACCOUNT.{found.subject}.CLAIMS.UPDATE", found.text.encode(), expected=expected)
    for answer, _rtt_ns in answers:
        name = answer["server"]["name"]
        error = answer.get("error")
        if error:
            failed += 1
            say(f"X Update failed on {name}: {error.get('description', '')}")
        else:
            say(f"✓ Update completed on {name}")
    say(f"\nSuccess {len(answers) - failed} Failed {failed} Expected {expected}")
    if failed:
        raise Failure(f"the update failed on {failed} of {counted(expected, 'server')}")
    if len(answers) < expected:
        raise Failure(f"only {len(answers)} of {counted(expected, 'server')} answered")


@click.command(cls=Command)
@click.argument("account")
@click.argument("output", required=False)
@operator_flag
@click.option("--save", is_flag=True, help="Keep it in the tree, in place of what is there.")
@click.pass_obj
def query(session: Session, account: str, output: str | None, operator: str, save: bool) -> None:
    """Fetch ACCOUNT, a name or public key, from a server, and write its token to the file OUTPUT if that is given."""
    owner = None
    if save or not is_public_key(account, KeyKind.ACCOUNT):
        _tree, owner = choose_operator(operator)
    known = None if owner is None else owner.find_account(account)
    public = account if known is None else known.subject
    if not is_public_key(public, KeyKind.ACCOUNT):
        raise Failure(f"account {account!r} is not known: give its public key")
    text = session.link().request(f"$SYS.REQ.ACCOUNT.{public}.CLAIMS.LOOKUP").payload.decode("utf-8", "replace")
    if not text:
        raise Failure(f"the server has no account {public}")
    try:
        claims = decode_account(text)
    except InvalidToken as error:
        raise Failure(f"the server's answer is no account: {error}") from error
    if claims.sub != public:
        raise Failure("the server's answer is another account")
    if output:
        write_secret(output, text)
    if save and owner is not None:
        signers = (owner.subject, *(owner.claims.nats.signing_keys or ()))
        if claims.iss not in signers:
            raise Failure(f"account {public} was not signed by operator {owner.name!r}")
        owner.put_account(known.name if known is not None else claims.name or public, text, ())
    show_account(claims)
