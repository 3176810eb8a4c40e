"""What a server says of itself to leafs that connect: INFO as a greeting, as the answer to CONNECT, and later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.links.compression import AUTO, NOT_SUPPORTED, OFF, configured_mode
from slipstream.links.documents import PROTO, introduce, subject_lists
from slipstream.links.leafs.handshake import LeafInfo
from slipstream.version import API_LEVEL

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.identity import Identity
    from slipstream.config.listener_options import CompressionOptions, LeafnodeOptions
    from slipstream.links.leafs.link import LeafLink
    from slipstream.routing.hub import Hub

__all__ = ["LeafIntroduction", "compression_of", "leaf_mode"]


class LeafIntroduction:
    """One server as its leafs know it."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.host, self.port = "", 0  # where leafs are told to connect
        self.urls: list[str] = []
        self._urls_elsewhere: list[str] = []  # of other servers of the cluster
        self._websocket_urls: list[str] = []  # of all servers of the cluster

    def cluster_changed(self, urls: list[str], websocket_urls: list[str]) -> bool:
        """Other servers of the cluster listen for leafs there; whether that is new."""
        before = self._urls_elsewhere, self._websocket_urls
        self._urls_elsewhere, self._websocket_urls = urls, websocket_urls
        return before != (urls, websocket_urls)

    def info(self, link: LeafLink) -> LeafInfo:
        """INFO as leafs get it when something has changed."""
        options = self._hub.options
        tls = options.leafnodes.tls
        info = LeafInfo(
            proto=PROTO,
            host=self.host,
            port=self.port,
            auth_required=True,
            jetstream=self._hub.jetstream,
            ip=self.urls[0] if self.urls else "",
            client_id=link.cid,
            cluster=self._hub.cluster_name,
            domain=options.jetstream.domain,
            api_lvl=API_LEVEL,
            info_on_connect=True,
            leafnode_urls=self.urls + self._urls_elsewhere,
            ws_connect_urls=self._websocket_urls or None,
        )
        introduce(info, self._hub, tls, verifies=tls is not None and tls.verify)
        return info

    def greeting(self, link: LeafLink) -> LeafInfo:
        """The first one on a link."""
        info = self.info(link)
        info.nonce = link.nonce
        own = leaf_mode(link, self._hub.options.leafnodes)
        info.compression = link.end.compression or ("" if own == NOT_SUPPORTED else own)
        return info

    def answer(self, link: LeafLink, account: Account, identity: Identity | None) -> LeafInfo:
        """The answer to CONNECT: the account, and what the leaf may do in it."""
        info = self.info(link)
        info.connect_info = True
        info.remote_account = account.name
        info.acc_is_sys = account.is_system
        if identity is not None and identity.permissions is not None:
            granted = identity.permissions.options
            info.import_, info.export = subject_lists(granted.subscribe), subject_lists(granted.publish)
        return info


def compression_of(link: LeafLink, options: LeafnodeOptions) -> CompressionOptions:
    """What is configured for a link: by its remote, or for all that connect here."""
    return options.compression if link.remote is None else link.remote.options.compression


def leaf_mode(link: LeafLink, options: LeafnodeOptions) -> str:
    """The mode that is configured for a link, by its one name."""
    if link.is_deflated:
        return OFF  # what is compressed already does not become smaller
    return configured_mode(compression_of(link, options), default=AUTO, when_on=AUTO)
