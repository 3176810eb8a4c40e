"""`slipstream dashboard`: opens the page that a server has at `/ui` of its monitoring port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from slipstream.cli.connection import Command, Failure, Session

if TYPE_CHECKING:
    import ssl

__all__ = ["dashboard"]

_PORT: Final = 8222
_HELP: Final = """There is no dashboard at {address}.

The server has one at /ui of its monitoring port, where that is on loopback:

    http: 127.0.0.1:8222

On any other address it has to be turned on, and should speak TLS:

    https: 0.0.0.0:8222
    dashboard: true

If monitoring is elsewhere, say where: slipstream dashboard --http http://HOST:PORT"""


@click.command(cls=Command)
@click.option("--http", "address", metavar="URL", default="", help="Where monitoring is; by default port 8222.")
@click.option("--print", "prints", is_flag=True, help="Print the address and open nothing.")
@click.pass_obj
def dashboard(session: Session, address: str, prints: bool) -> None:
    """Open the dashboard of a server in the browser."""
    page = _page(address or _guess(session.settings.urls[0]))
    _check(page, session.settings.timeout_ns / 1e9)
    click.echo(page)
    if not prints:
        import webbrowser

        if not webbrowser.open(page):
            raise Failure("there is no browser here; open the address above in one")


def _guess(url: str) -> str:
    """Monitoring beside a NATS address."""
    from urllib.parse import urlsplit

    host = urlsplit(url if "://" in url else f"nats://{url}").hostname or "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{_PORT}"


def _page(address: str) -> str:
    return f"{address.rstrip('/').removesuffix('/ui')}/ui/"


def _check(page: str, timeout_s: float) -> None:
    """Whether the page is there.

    Raises:
        Failure: it is not; how to have one.
    """
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        # One that cannot be verified is for the browser to ask about, not a reason to say there is none.
        with urlopen(page, timeout=timeout_s, context=_unverified(page)) as answer:
            found = b"<title>Slipstream</title>" in answer.read(4096)
    except (OSError, ValueError, HTTPException):
        found = False
    if not found:
        raise Failure(_HELP.format(address=page))


def _unverified(page: str) -> ssl.SSLContext | None:
    if not page.startswith("https:"):
        return None
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
