"""The dashboard's files, as they are served below `/ui`. See docs/adr/0080-dashboard.md.

The page is a NATS client like any other: it comes back to this port for a WebSocket (`SOCKET_PATH`), and what it shows
and does is what its user may. There is nothing behind these files that knows more.

Only names in the package's directory are served, so there is no path to climb; they are read once. The policy in the
headers lets the page run its own modules and talk to its own origin, and nothing else.
"""

from __future__ import annotations

import posixpath
from functools import cache
from typing import Final, NamedTuple

from slipstream.monitoring.reply import Reply

__all__ = ["PATH", "SOCKET_PATH", "Dashboard", "base_path"]

PATH: Final = "/ui"
SOCKET_PATH: Final = f"{PATH}/nats"

_TEXT: Final = "text/plain; charset=utf-8"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
    # Asked for each time, sent again only if another version is installed.
    ("Cache-Control", "no-cache"),
)


class _File(NamedTuple):
    content_type: str
    body: bytes
    etag: str


class Dashboard:
    """Answers for everything below `/ui`."""

    def reply(self, path: str, base: str, known: str) -> Reply:
        """The answer for a path.

        Args:
            path: from `/ui` on, decoded.
            base: what stands before it.
            known: If-None-Match of the request.
        """
        if path == PATH:
            # Names in the page are relative to its directory.
            return Reply(307, _TEXT, b"Temporary Redirect\n", (("Location", f"{base}{PATH}/"), *_HEADERS))
        if path == SOCKET_PATH:
            return Reply(426, _TEXT, b"426 Upgrade Required\n", (("Upgrade", "websocket"), *_HEADERS))
        found = _files().get(path.removeprefix(f"{PATH}/") or "index.html")
        if found is None:
            return Reply(404, _TEXT, b"404 page not found\n", _HEADERS)
        headers = (("ETag", found.etag), *_HEADERS)
        if found.etag in (mark.strip().removeprefix("W/") for mark in known.split(",")):
            return Reply(304, found.content_type, b"", headers)
        return Reply(200, found.content_type, found.body, headers)


@cache
def _files() -> dict[str, _File]:
    # Imported with the first page: most servers never show one.
    import hashlib
    from importlib.resources import files

    found: dict[str, _File] = {}
    for entry in (files("slipstream.monitoring") / "ui").iterdir():
        content_type = _TYPES.get(posixpath.splitext(entry.name)[1])
        if content_type is not None:
            body = entry.read_bytes()
            found[entry.name] = _File(content_type, body, f'"{hashlib.sha256(body).hexdigest()[:20]}"')
    return found


def base_path(configured: str) -> str:
    """`http_base_path` in the form in which it stands before every path; empty for none."""
    clean = posixpath.normpath("/" + configured.lstrip("/"))
    return "" if clean == "/" else clean
