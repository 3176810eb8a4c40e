"""Which servers may come in over the port of routes or of gateways: by certificate, or by user and password."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from slipstream.auth.password import check
from slipstream.auth.tls_map import CertificateUsers

if TYPE_CHECKING:
    from slipstream.auth.tls_map import PeerCertificate
    from slipstream.config.listener_options import TLSOptions

__all__ = ["PeerLogin", "is_admitted"]


class PeerLogin(NamedTuple):
    """A user and a password."""

    user: str
    password: str


def is_admitted(
    tls: TLSOptions | None,
    asked: PeerLogin,
    hosts: Iterable[str],
    given: PeerLogin,
    certificate: PeerCertificate | None,
) -> bool:
    """Whether a peer is one of those that are expected, by what it showed and said.

    Args:
        tls: the block of the port.
        asked: the user of the port; one without a name asks for nothing.
        hosts: names of the servers that are configured.
        given: what the peer said.
        certificate: what it showed.
    """
    if tls is not None and (tls.verify_and_map or tls.verify_cert_and_check_known_urls):
        if certificate is None:
            return False
        if tls.verify_cert_and_check_known_urls and _is_known(hosts, certificate):
            return True
        users = CertificateUsers({asked.user: True} if asked.user else {})
        return tls.verify_and_map and users.find(certificate, bool) is not None
    if not asked.user:
        return True
    # A hash that takes its time is refused with the configuration.
    return check(asked.user, given.user) is True and check(asked.password, given.password) is True


def _is_known(hosts: Iterable[str], certificate: PeerCertificate) -> bool:
    """Whether a certificate is that of a configured server; a wildcard stands for the leftmost label alone."""
    known = [host.lower().split(".") for host in hosts]
    for name in certificate.dns_names:
        labels = name.lower().split(".")
        skipped = 1 if labels[0] == "*" else 0
        if any(len(host) == len(labels) and host[skipped:] == labels[skipped:] for host in known):
            return True
    return False
