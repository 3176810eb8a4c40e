"""A route in parts, for those who deliver one receiver after the other, and tell of each."""

from __future__ import annotations

from slipstream.kernels.wire.receivers import Route

__all__ = ["chosen_part", "queue_aliases"]


def chosen_part(route: Route) -> Route | None:
    """Queue groups and other servers, which are served in one go: a member elsewhere counts like one here."""
    if not route.queues and route.links is None and route.elsewhere is None:
        return None
    return Route(
        (),
        route.queues,
        None,
        route.queue_renamed,
        links=route.links,
        link_names=route.link_names,
        elsewhere=route.elsewhere,
        via=route.via,
    )


def queue_aliases(route: Route) -> tuple[tuple[bytes | None, ...], ...]:
    """The names under which members of queue groups get it; None: its own."""
    return route.queue_renamed or tuple((None,) * len(group) for group in route.queues)
