"""The handshake of a leaf link that this server dialled.

INFO of the remote ──► [TLS] ──► CONNECT ──► INFO with the account there and the rights in it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.errors import ConfigError
from slipstream.links.documents import PROTO, SubjectLists
from slipstream.links.leafs.handshake import LeafConnect, LeafInfo
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason
from slipstream.units import SECOND_NS
from slipstream.version import SERVER_VERSION

if TYPE_CHECKING:
    from slipstream.links.leafs.edge import LeafEdge
    from slipstream.links.leafs.link import LeafLink
    from slipstream.links.leafs.remotes import LeafRemote
    from slipstream.routing.hub import Hub

__all__ = ["SPACES", "WRONG_PORT", "LeafCaller"]

WRONG_PORT = "attempted to connect to wrong port"
SPACES = "cluster name cannot contain spaces"
_ANSWER_NS = 2 * SECOND_NS  # for the INFO that follows CONNECT

# The link, its remote, and what this server may send to it and receive from it.
Finish = Callable[["LeafLink", "LeafRemote", SubjectLists | None, SubjectLists | None], None]


class LeafCaller:
    """Leads links to remotes through their handshake.

    Args:
        hub: who this server is.
        edge: sockets and credentials.
        compresses: agrees on compression; whether the remote says INFO once more.
        finish: what comes when the remote has let this server in.
    """

    def __init__(
        self, hub: Hub, edge: LeafEdge, compresses: Callable[[LeafLink, LeafInfo], bool], finish: Finish
    ) -> None:
        self._hub = hub
        self._edge = edge
        self._compresses = compresses
        self._finish = finish

    def on_info(self, link: LeafLink, remote: LeafRemote, info: LeafInfo) -> None:
        """The remote tells about itself, lets this server in, or tells where its cluster can be reached."""
        if link.has_info:
            self._on_later_info(link, remote, info)
            return
        link.has_info = True
        if not info.client_id or info.leafnode_urls is None:
            link.refuse(CloseReason.WRONG_PORT, WRONG_PORT)
        elif (remote.wants_tls or info.tls_required) and not link.secured and not remote.is_websocket:
            remote.wants_tls = True
            self._edge.secure(link, lambda: self._on_first_info(link, remote, info))
        else:
            self._on_first_info(link, remote, info)

    def _on_first_info(self, link: LeafLink, remote: LeafRemote, info: LeafInfo) -> None:
        if " " in info.cluster:
            link.refuse(CloseReason.PROTOCOL_VIOLATION, SPACES)
            return
        if not link.end.compression and self._compresses(link, info):
            link.has_info = False  # the remote says it again, compressed
            return
        link.nonce = info.nonce
        link.named(info.server_name or info.server_id, info.cluster, info.domain)
        link.end.understands_traces = info.understands_traces
        link.end.told_of(info.server_id, hands_on=info.slipstream_hands_on)
        link.link.headers = info.headers and not self._hub.options.no_header_support
        link.answers_connect = info.info_on_connect
        remote.learn(info.leafnode_urls or [], info.ws_connect_urls or [])
        options = remote.options
        connect = LeafConnect(
            version=SERVER_VERSION,
            server_id=self._hub.identity.id,
            domain=self._hub.options.jetstream.domain,
            name=self._hub.identity.name,
            is_hub=options.hub,
            cluster=self._hub.cluster_name,
            headers=link.link.headers,
            jetstream=self._hub.jetstream,
            deny_pub=list(options.deny_imports) or None,
            isolate=options.request_isolation,
            compress_mode=link.end.compression,
            remote_account=remote.account,
            protocol=PROTO,
            slipstream_hands_on=True,
        )
        problem = self._edge.sign_in(link, connect)
        if problem is not None:
            link.log("ERR", problem)
            link.close(CloseReason.WRITE_ERROR)
            return
        link.outbox.write(connect.line())
        link.end.authenticating()
        self._edge.await_answer(link, _ANSWER_NS)
        if not link.answers_connect:
            self._finish(link, remote, None, None)

    def _on_later_info(self, link: LeafLink, remote: LeafRemote, info: LeafInfo) -> None:
        if info.leafnode_urls or info.ws_connect_urls:
            remote.learn(info.leafnode_urls or [], info.ws_connect_urls or [])
        if not info.connect_info or link.end.state is not State.AUTHENTICATING:
            return
        link.remote_account = info.remote_account
        try:
            self._finish(link, remote, info.export, info.import_)
        except ConfigError as error:
            link.end.unreadable("INFO", error)
