"""The leaf links of one server: who is let in, what is dialled, and which account is connected with which.

    accepted   INFO ──► CONNECT ──► who is it? ──► rights, INFO ──► READY
    dialled    INFO ──► [TLS] ──► CONNECT ──► INFO with rights ──► READY

What this is not: sockets (`server.leafnodes`), credentials (`door`), what this server says of itself (`introduction`),
what is said over a link (`link`), what crosses it (`crossing`), interest (`interest`).

Loops are found in two ways: each account of each server has a subject of its own (`$LDS.`) that all leaf links pass on,
and whoever hears its own is in one; and no server is the leaf of a cluster whose leaf it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from slipstream.config.account_options import SubjectPermissionOptions
from slipstream.errors import ConfigError
from slipstream.kernels.wire.receivers import SPOKE_LEAF
from slipstream.links.compressing import Compressing
from slipstream.links.compression import NOT_SUPPORTED, OFF
from slipstream.links.documents import PROTO, SubjectLists
from slipstream.links.leafs.caller import SPACES, LeafCaller
from slipstream.links.leafs.crossing import Crossing
from slipstream.links.leafs.door import LeafDoor
from slipstream.links.leafs.handshake import LeafConnect, LeafInfo
from slipstream.links.leafs.interest import LeafInterest
from slipstream.links.leafs.introduction import LeafIntroduction, compression_of, leaf_mode
from slipstream.links.leafs.link import LeafLink
from slipstream.links.leafs.wants import LeafWants
from slipstream.links.traffic import PastTraffic
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.auth.identity import Identity
    from slipstream.config.account_options import ResponsePermissionOptions
    from slipstream.kernels.wire.receivers import Route
    from slipstream.links.leafs.edge import LeafEdge
    from slipstream.links.leafs.remotes import LeafRemote
    from slipstream.protocol.peer import Peer
    from slipstream.routing.hub import Hub

__all__ = ["LeafNodes"]

LEAF_PORT_ERROR = "attempted to connect to leaf node port"
SAME_CLUSTER = "remote leafnode has same cluster name"
MIN_VERSION = "connection rejected since minimum version required is"
_LOOP_DELAY_NS = _SAME_CLUSTER_DELAY_NS = 30 * SECOND_NS
_VERSION_DELAY_NS = 5 * SECOND_NS


class LeafNodes:
    """All leaf links, of both sides."""

    def __init__(self, hub: Hub, edge: LeafEdge) -> None:
        self.hub = hub
        self._edge = edge
        self.introduction = LeafIntroduction(hub)
        self.links: dict[int, LeafLink] = {}  # READY ones
        self.past = PastTraffic()
        # Whoever wants to know: the system account's events.
        self.on_connected: list[Callable[[LeafLink], None]] = []
        self.on_closed: list[Callable[[LeafLink, CloseReason], None]] = []
        self._door = LeafDoor(hub, edge.check_password, edge.called_out)
        self._wants = LeafWants(hub)
        self._compressing = Compressing(hub.now_ns, edge.compress)
        self._caller = LeafCaller(hub, edge, self._compresses, self._finish)

    # --- as a host of links ------------------------------------------------------------------------------------------

    def log(self, level: str, text: str) -> None:
        """A log line."""
        self._edge.log(level, text)

    def loop_subject(self, account: Account) -> bytes:
        """The subject by which this server knows itself in an account."""
        return self._wants.loop_subject(account)

    def mapped(self, account: Account, subject: bytes) -> bytes | None:
        """What the account's mappings make of a subject; None: nothing."""
        return self.hub.topology.roll(account, subject) if account.maps_subjects else subject

    def mapped_route(self, account: Account, subject: bytes) -> tuple[bytes, Route] | None:
        """What a mapping makes of a subject, and where that goes; None: nowhere."""
        mapped = self.mapped(account, subject)
        return None if mapped is None else (mapped, self.hub.topology.planned(account, mapped))

    # --- all links ---------------------------------------------------------------------------------------------------

    def of_account(self, name: str) -> list[LeafLink]:
        """The links of one account."""
        return [link for link in self.links.values() if link.account is not None and link.account.name == name]

    def close_all(self, reason: CloseReason) -> None:
        """End all links."""
        for link in list(self.links.values()):
            link.close(reason)

    def reload(self) -> None:
        """Whoever would not come in as before has to come again; the others learn what is new."""
        self._door.reload()
        for link in list(self.links.values()):
            account, identity = link.account, link.identity
            assert account is not None
            if self.hub.accounts.get(account.name) is not account:
                link.close(CloseReason.MISSING_ACCOUNT)
            elif identity is not None and not self._door.still_holds(identity):
                link.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)
            elif link.interest is not None:
                link.heed_traces()
                self.hub.in_steps(link.interest.begin(self._wants.importers(account), self._wants.always(account)))

    def accounts_changed(self, names: Iterable[str]) -> None:
        """Accounts of operator mode have other tokens now: whom these do not allow goes, and may come again."""
        for link in [link for name in names for link in self.of_account(name)]:
            account, identity = link.account, link.identity
            assert account is not None
            departure = None if identity is None else self._door.departure(identity)
            if departure is not None:
                link.close(*departure)
            elif link.interest is not None:
                self.hub.in_steps(link.interest.begin(self._wants.importers(account), self._wants.always(account)))

    def account_expired(self, name: str) -> None:
        """The token of an account is no longer valid."""
        for link in self.of_account(name):
            if link.identity is not None:
                link.close(CloseReason.AUTHENTICATION_EXPIRED, texts.ACCOUNT_AUTHENTICATION_EXPIRED)

    # --- accepted links ----------------------------------------------------------------------------------------------

    def accept(self, peer: Peer) -> LeafLink:
        """A server dialled. `greet` follows, when it is time for that."""
        link = LeafLink(self, peer)
        link.nonce = self.hub.new_nonce()
        link.log("INF", "Leafnode connection created ")
        return link

    def greet(self, link: LeafLink) -> None:
        """Say who this is."""
        link.outbox.write(self.introduction.greeting(link).line())

    def on_connect(self, link: LeafLink, connect: LeafConnect) -> None:
        """A server that dialled says who it is."""
        if connect.lang:
            link.refuse(CloseReason.WRONG_PORT, LEAF_PORT_ERROR)
            return
        link.end.remote_name, link.remote_version = connect.name, connect.version
        link.end.understands_traces = connect.protocol >= PROTO
        link.end.told_of(connect.server_id, hands_on=connect.slipstream_hands_on)
        if not link.end.compression:
            is_old = connect.compress_mode in ("", NOT_SUPPORTED)
            link.end.compression = NOT_SUPPORTED if is_old else OFF
        self._door.ask(link, connect, lambda identity: self._admit(link, connect, identity))

    def _admit(self, link: LeafLink, connect: LeafConnect, identity: Identity) -> None:
        account = self.hub.account_of(identity)
        if account is None:
            link.close(CloseReason.MISSING_ACCOUNT, texts.AUTHORIZATION_VIOLATION)
            return
        if not self._has_room(account):
            link.refuse(CloseReason.MAX_ACCOUNT_CONNECTIONS, texts.MAXIMUM_ACCOUNT_CONNECTIONS)
            return
        ours = self.hub.cluster_name
        if " " in connect.cluster:
            link.refuse(CloseReason.PROTOCOL_VIOLATION, SPACES)
        elif ours and connect.cluster == ours:
            link.refuse(CloseReason.CLUSTER_NAMES_IDENTICAL, SAME_CLUSTER)
        elif connect.gateway:
            name = texts.quoted_text(connect.gateway)
            link.refuse(CloseReason.WRONG_GATEWAY, f"Rejecting connection from gateway {name} on the leafnode port")
        elif not _is_new_enough(connect.version, self.hub.options.leafnodes.min_version):
            wanted = texts.quoted_text(self.hub.options.leafnodes.min_version)
            link.outbox.write(self.introduction.answer(link, account, None).line())
            link.refuse(CloseReason.MINIMUM_VERSION, f"{MIN_VERSION} {wanted}")
        else:
            self._let_in(link, connect, account, identity)

    def _let_in(self, link: LeafLink, connect: LeafConnect, account: Account, identity: Identity) -> None:
        link.named(connect.name, connect.cluster, connect.domain)
        link.remote_account = connect.remote_account
        link.isolated = self.hub.options.leafnodes.isolate or connect.isolate
        link.link.headers = connect.headers and not self.hub.options.no_header_support
        if connect.is_hub:
            link.link.kind = SPOKE_LEAF
        granted = None if identity.permissions is None else identity.permissions.options
        inward = None if granted is None else granted.publish
        outward = None if granted is None else granted.subscribe
        if connect.deny_pub:
            outward = outward or SubjectPermissionOptions()
            outward = SubjectPermissionOptions(outward.allow, (*outward.deny, *connect.deny_pub))
        try:
            crossing = self._crossing(
                link, account, inward, outward, None if granted is None else granted.allow_responses
            )
        except ConfigError as error:
            link.end.unreadable("CONNECT", error)
            return
        link.bind(account, crossing, identity)
        for other in self.of_account(account.name):
            if _is_same(other, link):
                other.refuse(CloseReason.DUPLICATE_LEAFNODE, CloseReason.DUPLICATE_LEAFNODE.value)
                link.log("WRN", "Replacing connection from same server")
                break
        link.outbox.write(self.introduction.answer(link, account, identity).line())
        if identity.ending is not None and identity.ending.until_ns:
            self._edge.end_at(link, identity.ending.until_ns)
        self._begin(link)

    def _crossing(
        self,
        link: LeafLink,
        account: Account,
        inward: SubjectPermissionOptions | None,
        outward: SubjectPermissionOptions | None,
        responses: ResponsePermissionOptions | None = None,
    ) -> Crossing:
        domains = self.hub.options.default_js_domain
        return Crossing(
            inward,
            outward,
            domain=self.hub.options.jetstream.domain if self.hub.options.jetstream.enabled else "",
            strict=not link.is_spoke,
            shares_jetstream=domains.get(account.name) == "",
            responses=responses,
        )

    # --- dialled links -----------------------------------------------------------------------------------------------

    def dialled(self, peer: Peer, remote: LeafRemote) -> LeafLink:
        """A server was reached; it speaks first."""
        link = LeafLink(self, peer, remote)
        link.isolated = self.hub.options.leafnodes.isolate or remote.options.isolate
        link.log("INF", f"Leafnode connection created for account: {remote.account} ")
        return link

    def on_info(self, link: LeafLink, info: LeafInfo) -> None:
        """The peer tells about itself, or where it can be reached."""
        if link.remote is not None:
            self._caller.on_info(link, link.remote, info)
        elif link.end.state is State.GREETED:
            # Servers with compression say INFO before CONNECT.
            if link.end.compression:
                link.refuse(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)
            else:
                self._compresses(link, info)
        elif link.end.state is not State.READY:
            link.refuse(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)

    def cluster_changed(self, urls: list[str], websocket_urls: list[str]) -> None:
        """Other servers of the cluster listen for leafs there, who may connect to them when this one is gone."""
        if self.introduction.cluster_changed(urls, websocket_urls):
            for link in self.links.values():
                if not link.solicited:
                    link.outbox.write(self.introduction.info(link).line())

    def _compresses(self, link: LeafLink, info: LeafInfo) -> bool:
        """Agree with a peer on compression; whether what it says next is compressed."""
        options = compression_of(link, self.hub.options.leafnodes)
        return self._compressing.begins(
            link.end,
            leaf_mode(link, self.hub.options.leafnodes),
            info.compression,
            options,
            lambda: self.introduction.greeting(link).line(),
            solicited=link.solicited,
        )

    def on_pong(self, link: LeafLink) -> None:
        """A peer answered: its distance may ask for another level of compression."""
        leafnodes = self.hub.options.leafnodes
        self._compressing.retune(link.end, leaf_mode(link, leafnodes), compression_of(link, leafnodes))

    def _finish(
        self, link: LeafLink, remote: LeafRemote, export: SubjectLists | None, import_: SubjectLists | None
    ) -> None:
        """The peer has let this server in, with these rights."""
        account = self.hub.accounts.get(remote.account)
        if account is None:
            name = texts.quoted_text(remote.account)
            link.log("ERR", f"Unable to lookup account {name} for solicited leafnode connection")
            link.close(CloseReason.MISSING_ACCOUNT)
            return
        if link.remote_cluster and any(
            other.remote_cluster == link.remote_cluster and not other.solicited and not other.is_spoke
            for other in self.of_account(account.name)
        ):
            self.on_own_loop(link)
            return
        if not self._has_room(account):
            link.refuse(CloseReason.MAX_ACCOUNT_CONNECTIONS, texts.MAXIMUM_ACCOUNT_CONNECTIONS)
            return
        options = remote.options
        # What this server may send is what the peer may receive, and the other way round.
        outward, inward = _rule(export, options.deny_exports), _rule(import_, options.deny_imports)
        link.bind(account, self._crossing(link, account, inward, outward), None)
        self._begin(link)

    # --- both --------------------------------------------------------------------------------------------------------

    def _has_room(self, account: Account) -> bool:
        limit = account.limits.max_leafnodes
        return limit < 0 or len(self.of_account(account.name)) < limit

    def _begin(self, link: LeafLink) -> None:
        account, crossing = link.account, link.crossing
        assert account is not None and crossing is not None
        options = self.hub.options.jetstream
        local, remote = texts.quoted_text(options.domain), texts.quoted_text(link.remote_domain)
        if account.is_system:
            cluster = f"/{link.remote_cluster}" if link.remote_cluster else ""
            link.log("INF", f"System account connected from {texts.escaped(link.end.remote_name)}{cluster}")
            link.log("INF", "JetStream not extended, domains differ")
        elif options.domain != link.remote_domain or not options.enabled:
            link.log("INF", f"JetStream using domains: local {local}, remote {remote}")
        interest = LeafInterest(account, link.link, crossing.is_told, self._wants.imports, isolated=link.isolated)
        self.links[link.cid] = link
        link.begin(interest)
        self._edge.ready(link)
        self.hub.in_steps(self._announce(link, interest, account))
        for listener in self.on_connected:
            listener(link)
        if link.parser.unparsed.paused:
            link.parser.resume()

    def _announce(self, link: LeafLink, interest: LeafInterest, account: Account) -> Iterator[None]:
        for _ in interest.begin(self._wants.importers(account), self._wants.always(account)):
            if link.end.state is State.CLOSED:
                return
            yield

    def on_own_loop(self, link: LeafLink) -> None:
        """This server hears itself over a link."""
        self._delay(link, _LOOP_DELAY_NS)
        name = texts.quoted_text("" if link.account is None else link.account.name)
        text = f"Loop detected for leafnode account={name}. Delaying attempt to reconnect for 30s"
        link.refuse(CloseReason.PROTOCOL_VIOLATION, text)

    def on_peer_error(self, link: LeafLink, text: str) -> None:
        """What the peer complains about; some of that takes longer to mend."""
        dropped = "Leafnode connection dropped"
        if SAME_CLUSTER in text:
            self._delay(link, _SAME_CLUSTER_DELAY_NS)
            link.log("ERR", f"{dropped} with same cluster name error. Delaying attempt to reconnect for 30s")
        elif MIN_VERSION in text:
            self._delay(link, _VERSION_DELAY_NS)
            link.log("ERR", f"{dropped} due to minimum version requirement. Delaying attempt to reconnect for 5s")
        elif "Loop detected" in text:
            self._delay(link, _LOOP_DELAY_NS)
            name = texts.quoted_text("" if link.account is None else link.account.name)
            link.log("ERR", f"Loop detected for leafnode account={name}. Delaying attempt to reconnect for 30s")
            link.close(CloseReason.PROTOCOL_VIOLATION)

    def _delay(self, link: LeafLink, delay_ns: int) -> None:
        if link.remote is not None:
            link.remote.delay_ns = delay_ns

    def closed(self, link: LeafLink, reason: CloseReason) -> None:
        """A link ended, and forgot what its peer wanted; called once for each."""
        remote = f" - Remote: {texts.escaped(link.end.remote_name)}" if link.end.remote_name else ""
        if self.links.pop(link.cid, None) is not None:
            self.past.add(link.end)
            for listener in self.on_closed:
                listener(link, reason)
        link.log("INF", f"Leafnode connection closed: {reason.value}{remote}")
        self._edge.close(link, reason)


def _rule(given: SubjectLists | None, denied: tuple[str, ...]) -> SubjectPermissionOptions | None:
    if given is None and not denied:
        return None
    given = given or SubjectLists()
    allow = None if given.allow is None else tuple(_of_all(given.allow))
    return SubjectPermissionOptions(allow, (*_of_all(given.deny or ()), *denied))


def _of_all(entries: Iterable[str]) -> Iterator[str]:
    """Without those for one queue group alone, which the hub looks after: members of all groups share a link."""
    return (entry for entry in entries if " " not in entry)


def _is_same(other: LeafLink, link: LeafLink) -> bool:
    """Whether two accepted links come from the same account of the same server."""
    return (
        not other.solicited
        and bool(link.remote_account)
        and (other.end.remote_name, other.remote_cluster, other.remote_account)
        == (link.end.remote_name, link.remote_cluster, link.remote_account)
    )


def _is_new_enough(version: str, wanted: str) -> bool:
    if not wanted:
        return True
    try:
        return _numbers(version) >= _numbers(wanted)
    except ValueError:
        return False


def _numbers(version: str) -> tuple[int, ...]:
    core = version.removeprefix("v").partition("-")[0].partition("+")[0]
    return tuple(int(part) for part in core.split(".")[:3])
