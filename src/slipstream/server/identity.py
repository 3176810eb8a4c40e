"""Who a server is: a fresh id at each start.

It has the form of a public key, as everywhere in NATS, and so has the key for secrets (`xkey`). Auth callouts alone
need their private halves: only a server that may have one makes real keys. For all others both are random bytes, and no
start has to load a crypto library for them.
"""

from __future__ import annotations

import os

from slipstream.auth.nkeys import KeyKind, encode_public_key
from slipstream.routing.hub import ServerIdentity

__all__ = ["new_identity"]

_KEY_BYTES = 32


def new_identity(name: str, start_ns: int, *, signs: bool = False) -> ServerIdentity:
    """A new identity; without a configured name the id is the name. `signs`: with private keys."""
    if signs:
        from slipstream.auth.callout.keys import ServerKeys

        keys = ServerKeys(os.urandom(_KEY_BYTES), os.urandom(_KEY_BYTES))
        return ServerIdentity(keys.id, name or keys.id, keys.xkey, start_ns, keys)
    server_id = encode_public_key(KeyKind.SERVER, os.urandom(_KEY_BYTES))
    xkey = encode_public_key(KeyKind.CURVE, os.urandom(_KEY_BYTES))
    return ServerIdentity(server_id, name or server_id, xkey, start_ns)
