"""Who may come in over the route port: by certificate, or by user and password."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.auth.password import check
from slipstream.auth.tls_map import CertificateUsers
from slipstream.links.routes.targets import route_target

if TYPE_CHECKING:
    from slipstream.auth.tls_map import PeerCertificate
    from slipstream.config.listener_options import ClusterOptions
    from slipstream.links.routes.handshake import RouteConnect

__all__ = ["is_admitted"]


def is_admitted(options: ClusterOptions, connect: RouteConnect, certificate: PeerCertificate | None) -> bool:
    """Whether a peer is one of the cluster, by what it showed and said."""
    tls = options.tls
    if tls is not None and (tls.verify_and_map or tls.verify_cert_and_check_known_urls):
        if certificate is None:
            return False
        if tls.verify_cert_and_check_known_urls and _is_known(options, certificate):
            return True
        users = CertificateUsers({options.user: True} if options.user else {})
        return tls.verify_and_map and users.find(certificate, bool) is not None
    if not options.user:
        return True
    # A hash that takes its time is refused with the configuration.
    return check(options.user, connect.user) is True and check(options.password, connect.password) is True


def _is_known(options: ClusterOptions, certificate: PeerCertificate) -> bool:
    """Whether a certificate is that of a configured route; a wildcard stands for the leftmost label alone."""
    targets = (route_target(url, explicit=True) for url in options.routes)
    hosts = [target.host.lower().split(".") for target in targets if target is not None]
    for name in certificate.dns_names:
        labels = name.lower().split(".")
        skipped = 1 if labels[0] == "*" else 0
        if any(len(host) == len(labels) and host[skipped:] == labels[skipped:] for host in hosts):
            return True
    return False
