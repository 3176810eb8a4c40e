"""/: a page with links to the endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from slipstream.monitoring.facts import Facts
from slipstream.version import PRODUCT_VERSION

__all__ = ["index"]

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{name} - Slipstream</title>
<style>
body {{ font: 16px/1.6 system-ui, sans-serif; margin: 2rem auto; max-width: 40rem; padding: 0 1rem; color: #223 }}
a {{ color: #245; text-decoration: none }} a:hover {{ text-decoration: underline }}
code {{ color: #678; font-size: 0.85em }} li {{ list-style: none }} ul {{ padding: 0 }}
</style>
</head>
<body>
<h1>Slipstream</h1>
<p>Server <strong>{name}</strong>, version {version}. What it is doing right now:</p>
<ul>
{links}
</ul>
</body>
</html>
"""


def index(facts: Facts, links: Iterable[tuple[str, str]]) -> bytes:
    """The page; `links` are words and addresses."""
    entries = "\n".join(
        f'<li><a href="{escape(path)}">{escape(words)}</a> <code>{escape(path)}</code></li>' for words, path in links
    )
    page = _PAGE.format(name=escape(facts.server_name), version=PRODUCT_VERSION, links=entries)
    return page.encode("utf-8", "replace")
