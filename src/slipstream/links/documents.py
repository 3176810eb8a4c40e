"""What INFO of every kind of links says: who the server is, and what it can do.

The INFO of a kind is a document of its own with fields of its own (`routes.handshake`, `leafs.handshake`). It extends
this one, because JSON has no way to hold the common part in one piece; the classes carry data alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from slipstream.config.account_options import SubjectPermissionOptions
from slipstream.version import PRODUCT_VERSION, SERVER_VERSION

if TYPE_CHECKING:
    from slipstream.config.listener_options import TLSOptions
    from slipstream.routing.hub import Hub

__all__ = ["PROTO", "LinkInfo", "SubjectLists", "introduce", "subject_lists"]

PROTO: Final = 3
"""Version of the protocol between servers: with accounts, changes of INFO, and traces of messages across servers.

Who says less is not told to trace."""


class SubjectLists(msgspec.Struct, omit_defaults=True):
    """Subjects that may or may not cross. No `allow` list allows everything, an empty one nothing."""

    allow: list[str] | None = None
    deny: list[str] | None = None


class LinkInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """INFO on a link. Fields at their default are left out."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    proto: int = 0
    git_commit: str = ""
    go: str = ""
    host: str = ""
    port: int = 0
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    max_payload: int = 0
    jetstream: bool = False
    ip: str = ""
    nonce: str = ""
    cluster: str = ""
    domain: str = ""
    ws_connect_urls: list[str] | None = None
    ldm: bool = False
    compression: str = ""
    slipstream_hands_on: bool = False  # it knows lists of servers that had nobody for a message

    @property
    def understands_traces(self) -> bool:
        """Whether the server tells where a traced message goes there."""
        return self.proto >= PROTO

    def line(self) -> bytes:
        """As it is sent."""
        return b"INFO %b\r\n" % msgspec.json.encode(self)


def introduce(info: LinkInfo, hub: Hub, tls: TLSOptions | None, *, verifies: bool) -> None:
    """Put into INFO who this server is.

    Args:
        info: to be sent.
        hub: identity and options.
        tls: of the port.
        verifies: whether the port asks for certificates.
    """
    info.server_id, info.server_name = hub.identity.id, hub.identity.name
    info.version, info.git_commit, info.go = SERVER_VERSION, f"slipstream-{PRODUCT_VERSION}", "python"
    info.headers = not hub.options.no_header_support
    info.tls_required = tls is not None
    info.tls_verify = tls is not None and verifies
    info.max_payload = hub.options.max_payload
    info.ldm = hub.lame_duck
    info.slipstream_hands_on = True


def subject_lists(given: SubjectPermissionOptions | None) -> SubjectLists | None:
    """A rule of the configuration as INFO has it."""
    if given is None or given == SubjectPermissionOptions():
        return None
    return SubjectLists(None if given.allow is None else list(given.allow), list(given.deny) or None)
