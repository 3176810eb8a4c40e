"""What an auth callout is told is for the eyes of its service."""

from __future__ import annotations

import pytest

from slipstream.auth.callout.keys import SealError, ServerKeys

NONCE = b"n" * 24


def keys(number: int) -> ServerKeys:
    return ServerKeys(bytes([number]) * 32, bytes([number]) * 32)


def test_what_is_sealed_is_for_one_key_and_from_one() -> None:
    """CVE-2023-46129: keys that were all zeros sealed everything alike."""
    sender, service, stranger = keys(1), keys(2), keys(3)
    sealed = {
        receiver.xkey: source.seal(b"secret", receiver.xkey, NONCE)
        for source, receiver in ((sender, service), (sender, stranger), (stranger, service))
    }
    sealed["from a stranger"] = stranger.seal(b"secret", service.xkey, NONCE)
    sealed[service.xkey] = sender.seal(b"secret", service.xkey, NONCE)
    assert len(set(sealed.values())) == len(sealed)
    assert not any(b"secret" in text for text in sealed.values())
    assert service.open(sealed[service.xkey], sender.xkey) == b"secret"
    for opener, text, source in (
        (stranger, sealed[service.xkey], sender),
        (service, sealed["from a stranger"], sender),
        (service, sealed[service.xkey][:-1] + b"?", sender),
        (service, sealed[service.xkey][:20], sender),
        (service, b"", sender),
    ):
        with pytest.raises(SealError):
            opener.open(text, source.xkey)


def test_the_box_is_that_of_the_official_library() -> None:
    """X25519, XSalsa20 and Poly1305, as `nacl.bindings` has them, behind a version and the nonce."""
    nacl = pytest.importorskip("nacl.public")
    sender, service = keys(1), keys(2)
    box = nacl.Box(nacl.PrivateKey(bytes([1]) * 32), nacl.PrivateKey(bytes([2]) * 32).public_key)
    assert sender.seal(b"secret", service.xkey, NONCE) == b"xkv1" + bytes(box.encrypt(b"secret", NONCE))
