"""Checkpoints: a place in the hash chain of a stream, signed, to be kept where nobody who has the files can reach it.

    signature = Ed25519 over the other fields as JSON, in UTF-8, sorted by name, without spaces

So whoever has the public key of the server can check one, with any library and without any file of the server.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from slipstream.auth.nkeys import KeyKind, verify
from slipstream.jetstream.store.chains import ChainHead

__all__ = ["CHECKPOINT_BYTES_MAX", "Checkpoint", "Count", "Link", "read_checkpoint"]

CHECKPOINT_BYTES_MAX: Final = 65536
"""Of a file that may be one."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Link = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a server vouches for."""

    type: Literal["slipstream.checkpoint.1"] = "slipstream.checkpoint.1"
    """It is signed too: nothing else that the key signs can be taken for a checkpoint."""
    account: str
    stream: str
    identity: str
    """Of the stream: one of the same name that was made later is another."""
    records: Count
    """How many were linked."""
    link: Link
    last_seq: Count
    time: str
    """When it was signed, as the server's clock had it."""
    server: str
    """Public nkey of who signed it."""
    signature: str = ""
    """In base64url."""

    @property
    def signed_text(self) -> bytes:
        """What the signature is over."""
        fields = msgspec.structs.asdict(self)
        del fields["signature"]
        return msgspec.json.encode(dict(sorted(fields.items())))

    @property
    def place(self) -> ChainHead:
        """Where the chain was."""
        return ChainHead(self.records, bytes.fromhex(self.link), self.last_seq)

    @property
    def is_genuine(self) -> bool:
        """Whether the server that it names has signed it."""
        return verify(self.server, KeyKind.SERVER, self.signed_text, self.signature)


def read_checkpoint(data: bytes) -> Checkpoint:
    """A checkpoint that somebody kept.

    Raises:
        ValueError: it is none, or not what the server that it names has signed.
    """
    if len(data) > CHECKPOINT_BYTES_MAX:
        raise ValueError("not a checkpoint: it is too long")
    try:
        found = msgspec.json.decode(data, type=Checkpoint)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a checkpoint: {error}") from error
    if not found.is_genuine:
        raise ValueError("the signature is not that of the server that it names")
    return found
