"""A purge with a bar: how many messages a stream still has is asked for while the server removes them.

Servers answer a purge when it is done. This one removes messages in slices and answers questions between them, so the
bar moves; where a purge is one step, as that of a whole stream, the bar is there at its end.
"""

from __future__ import annotations

from typing import Final

from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.progress import progress, shows_progress
from slipstream.units import MILLISECOND_NS, MINUTE_NS

__all__ = ["expected_purge", "purge_watched"]

_LONG_NS: Final = 5 * MINUTE_NS  # removing millions of messages takes its time
_LOOK_NS: Final = 100 * MILLISECOND_NS  # between two questions


def expected_purge(body: Reply, state: Reply) -> int:
    """About how many messages a purge will remove.

    Args:
        body: the request.
        state: of the stream before, with `subjects` if the request has a filter.
    """
    count: int = sum(state.get("subjects", {}).values()) if body.get("filter") else state["messages"]
    if body.get("seq"):
        count = min(count, max(body["seq"] - state["first_seq"], 0))
    kept: int = body.get("keep", 0)
    return max(count - kept, 0)


def purge_watched(link: ClientLink, name: str, body: Reply, state: Reply) -> Reply:
    """Purge a stream and return the server's answer; a terminal shows how far it is.

    Raises:
        ApiRefusal: the server says no.
        ClientError: it does not answer.
    """
    timeout_ns = max(_LONG_NS, link.settings.timeout_ns)
    expected = expected_purge(body, state)
    if not expected or not shows_progress():
        return link.api(f"STREAM.PURGE.{name}", body or None, timeout_ns=timeout_ns)
    with progress(f"Purging {name}", expected) as advance:
        gone = 0
        answers = link.api_with_looks(
            f"STREAM.PURGE.{name}", body, look=f"STREAM.INFO.{name}", every_ns=_LOOK_NS, timeout_ns=timeout_ns
        )
        for answer in answers:
            now_gone = answer["purged"] if "purged" in answer else state["messages"] - answer["state"]["messages"]
            advance(max(min(now_gone, expected) - gone, 0))
            gone = max(min(now_gone, expected), gone)
    return answer
