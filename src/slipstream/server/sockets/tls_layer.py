"""TLS between two byte strings: what came from the wire in, what the protocol sees out, and back.

OpenSSL works on two buffers in memory here; no socket and no event loop knows about it. So a connection may look at its
first byte, read a PROXY header, or send INFO before it decides to speak TLS, and no byte is lost on the way, with
asyncio and uvloop alike. See docs/adr/0002-tls.md.

    HANDSHAKE ──► OPEN ──close_notify or error──► CLOSED

Memory is bounded: incoming bytes are consumed as they come; what stays is an incomplete record, at most 16 KiB. OpenSSL
sees the first record when it is complete, because from then on it takes 40 KiB for the handshake.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstream.auth.tls_map import PeerCertificate
from slipstream.errors import SlipstreamError
from slipstream.protocol.certificate import CertificateFacts, MalformedCertificate, read_certificate
from slipstream.server.sockets.tls import go_cipher_suite

if TYPE_CHECKING:
    from slipstream.server.sockets.tls import TlsContext

__all__ = ["TLS_RECORD_HANDSHAKE", "TlsFacts", "TlsFailed", "TlsLayer"]

# First byte of every TLS connection: the record type of a ClientHello.
TLS_RECORD_HANDSHAKE = 0x16
_RECORD_HEAD_BYTES = 5  # type, version, length
_RECORD_BYTES_MAX = 16_384


class TlsFailed(SlipstreamError):
    """The handshake failed or the peer sent garbage; the text is for the log.

    Attributes:
        is_probe: nothing that looked like TLS came: a port scanner or health check, not worth an error line.
    """

    def __init__(self, text: str, *, is_probe: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.is_probe = is_probe


@dataclass(frozen=True, slots=True)
class TlsFacts:
    """What a handshake found out."""

    version: str  # "1.2" or "1.3"
    cipher_suite: str  # Go's name
    chain: tuple[CertificateFacts, ...]  # what the client showed, its own certificate first
    certificate: PeerCertificate | None  # the names in it, when it was verified
    ders: tuple[bytes, ...] = ()  # the chain as bytes, up to the root where it was verified
    is_verified: bool = False


_DER = 2  # `_ssl.ENCODING_DER`


class TlsLayer:
    """One side of a TLS connection: the server's, or with the name of a server that side which calls it."""

    def __init__(self, context: TlsContext, server_hostname: str | None = None) -> None:
        import ssl

        dials = server_hostname is not None

        self.is_open = False
        self._context = context
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.context.wrap_bio(self._incoming, self._outgoing, not dials, server_hostname)
        self._begun = dials  # a first byte was seen
        self._first: bytes | None = (
            None if dials else b""
        )  # the first record as far as it came; None once OpenSSL has it
        self._want_read = ssl.SSLWantReadError
        self._error = ssl.SSLError

    def receive(self, data: bytes | memoryview) -> None:
        """Take bytes from the wire. Afterwards shake hands, or read."""
        if not self._begun and len(data):
            self._begun = True
            if data[0] != TLS_RECORD_HANDSHAKE:
                raise TlsFailed("tls: first record does not look like a TLS handshake", is_probe=True)
        if self._first is not None:
            self._first += bytes(data)
            if not _is_whole_record(self._first):
                return
            data, self._first = self._first, None
        self._incoming.write(data)

    def shake_hands(self) -> bool:
        """Go on with the handshake; returns whether it is done. There may be something to send either way.

        Raises:
            TlsFailed: it cannot be done. An alert may be waiting in `data_to_send`.
        """
        if self._first is not None:
            return False
        try:
            self._tls.do_handshake()
        except self._want_read:
            return False
        except self._error as error:
            raise TlsFailed(_handshake_error(error)) from error
        self._check_pinned()
        self.is_open = True
        return True

    def read_into(self, buffer: bytearray | memoryview) -> int:
        """Put plain bytes into a buffer; returns how many, 0 when all that came is read.

        Raises:
            EOFError: the peer ended the connection in good order.
            TlsFailed: what it sent cannot be decrypted.
        """
        # Asking OpenSSL in vain costs an exception, so look first.
        if not self._incoming.pending and not self._tls.pending():
            return 0
        try:
            count: int = self._tls.read(len(buffer), buffer)  # type: ignore[assignment]  # with a buffer it counts
        except self._want_read:
            return 0
        except self._error as error:
            raise TlsFailed(_words(error)) from error
        if not count:
            raise EOFError
        return count

    def encrypt(self, chunks: list[bytes | memoryview]) -> bytes:
        """Plain bytes as they go over the wire."""
        for chunk in chunks:
            view = memoryview(chunk)
            while view:
                view = view[self._tls.write(view) :]
        return self._outgoing.read()

    def data_to_send(self) -> bytes:
        """Handshake messages and alerts for the wire, once."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def close(self) -> bytes:
        """The bytes that tell the peer that nothing more comes."""
        if not self.is_open:
            return b""
        self.is_open = False
        # It waits for the peer's own goodbye, or the connection is broken; ours is in the buffer if it can be.
        with suppress(self._error, ValueError):
            self._tls.unwrap()
        return self._outgoing.read()

    def facts(self) -> TlsFacts:
        """What the handshake found out."""
        assert self.is_open
        cipher = self._tls.cipher()
        names = self._tls.getpeercert()
        return TlsFacts(
            version=(self._tls.version() or "").removeprefix("TLSv"),
            cipher_suite=go_cipher_suite(cipher[0]) if cipher else "",
            chain=tuple(self._chain()),
            certificate=PeerCertificate.from_ssl(names) if names else None,
            ders=tuple(self._ders(verified=bool(names))),
            is_verified=bool(names),
        )

    def _ders(self, *, verified: bool) -> list[bytes]:
        own = self._tls.getpeercert(binary_form=True)
        if own is None:
            return []
        name = "get_verified_chain" if verified else "get_unverified_chain"
        public = getattr(self._tls, name, None)
        if public is not None:
            return [der for der in public() if der is not None]
        # Python 3.11 and 3.12 have it, but do not say so.
        inner = getattr(getattr(self._tls, "_sslobj", None), name, None)
        found = inner() if inner is not None else None
        return [certificate.public_bytes(_DER) for certificate in found] if found else [own]

    def _chain(self) -> list[CertificateFacts]:
        # The whole chain is public since Python 3.13; before, the peer's own certificate is all there is.
        whole = getattr(self._tls, "get_unverified_chain", None)
        own = self._tls.getpeercert(binary_form=True)
        shown = whole() if whole is not None else [own]
        facts = []
        for der in shown:
            if der is None:
                continue
            try:
                facts.append(read_certificate(der))
            except MalformedCertificate:
                # OpenSSL accepts some that are not strictly well-formed; they have no facts to show.
                continue
        return facts

    def _check_pinned(self) -> None:
        pinned = self._context.options.pinned_certs
        if not pinned:
            return
        own = self._tls.getpeercert(binary_form=True)
        try:
            key = read_certificate(own).key_sha256 if own else ""
        except MalformedCertificate:
            key = ""
        if key not in pinned:
            raise TlsFailed("certificate not pinned")


def _is_whole_record(data: bytes) -> bool:
    """Whether a record is there with all its bytes; one that announces too many is left to OpenSSL to refuse."""
    if len(data) < _RECORD_HEAD_BYTES:
        return False
    length = int.from_bytes(data[3:_RECORD_HEAD_BYTES], "big")
    return length > _RECORD_BYTES_MAX or len(data) >= _RECORD_HEAD_BYTES + length


def _handshake_error(error: Exception) -> str:
    """What went wrong, in nats-server's words where they say the same."""
    reason = getattr(error, "reason", None)
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "tls: client didn't provide a certificate"
    if reason == "CERTIFICATE_VERIFY_FAILED":
        return f"tls: failed to verify certificate: {getattr(error, 'verify_message', '')}"
    if reason == "UNSUPPORTED_PROTOCOL":
        return "tls: client offered only unsupported versions"
    if reason == "NO_SHARED_CIPHER":
        return "tls: no cipher suite supported by both client and server"
    if reason and "ALERT" in reason:
        return f"remote error: tls: {_words(error).partition('alert ')[2]}"
    return f"tls: {_words(error)}"


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or str(error)
    return reason.replace("_", " ").lower()
