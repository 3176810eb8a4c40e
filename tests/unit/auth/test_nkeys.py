"""Nkeys against the reference implementation of another project, and against damage."""

import base64

import nkeys as reference
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from slipstream.auth.nkeys import (
    KeyKind,
    decode_public_key,
    decode_signature,
    encode_public_key,
    is_public_key,
    verify,
)
from slipstream.server.identity import new_identity

SEED = bytes(range(32))
PAIR = reference.from_seed(reference.encode_seed(SEED, reference.PREFIX_BYTE_USER))
USER = PAIR.public_key.decode()
NONCE = b"PXoWU7zWAMt75FY"
RAW_SIGNATURE = PAIR.sign(NONCE)
SIGNATURE = base64.urlsafe_b64encode(RAW_SIGNATURE).rstrip(b"=").decode()


def test_text_form_is_that_of_the_reference() -> None:
    public = bytes(SigningKey(SEED).verify_key)
    assert encode_public_key(KeyKind.USER, public) == USER
    assert decode_public_key(USER, KeyKind.USER) == public
    assert decode_public_key(USER) == public


@given(key=st.binary(min_size=32, max_size=32), kind=st.sampled_from(list(KeyKind)))
def test_every_key_survives_the_round_trip_as_its_own_kind_only(key: bytes, kind: KeyKind) -> None:
    text = encode_public_key(kind, key)
    assert len(text) == 56 and text[0] == {0: "A", 16: "C", 104: "N", 112: "O", 160: "U", 184: "X"}[kind]
    assert decode_public_key(text, kind) == key
    assert not any(is_public_key(text, other) for other in KeyKind if other is not kind)


@pytest.mark.parametrize("length", [0, 1, 2, 8, 40, 55, 57, 64, 112])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    """Advisory 2026-23: a truncated nkey crashed nats-server."""
    text = (USER * 2)[:length]
    assert decode_public_key(text, KeyKind.USER) is None
    assert not verify(text, KeyKind.USER, NONCE, SIGNATURE)


@given(position=st.integers(0, 55), letter=st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567=01 a\n\u00e9"))
def test_a_changed_letter_is_noticed(position: int, letter: str) -> None:
    changed = USER[:position] + letter + USER[position + 1 :]
    assert is_public_key(changed, KeyKind.USER) == (changed == USER)


@given(text=st.text(max_size=60))
def test_no_text_makes_decoding_fail(text: str) -> None:
    assert decode_public_key(text) is None
    assert not verify(text, KeyKind.USER, b"", text)
    assert decode_signature(text) is None


def test_seeds_and_unknown_prefixes_are_not_public_keys() -> None:
    assert not is_public_key(PAIR.seed.decode()[:56])
    assert not is_public_key(encode_public_key(KeyKind(0), SEED).replace("A", "B", 1))


def test_signatures_of_the_reference_verify_in_both_alphabets() -> None:
    assert verify(USER, KeyKind.USER, NONCE, SIGNATURE)
    assert verify(USER, KeyKind.USER, NONCE, base64.b64encode(RAW_SIGNATURE).decode())


def test_wrong_signatures_do_not_verify() -> None:
    other_message = base64.urlsafe_b64encode(PAIR.sign(b"other")).decode()
    flipped = base64.b64encode(bytes([RAW_SIGNATURE[0] ^ 1]) + RAW_SIGNATURE[1:]).decode()
    for signature in ("", "A", "!" + SIGNATURE, SIGNATURE + "AA", SIGNATURE[:-2], other_message, flipped):
        assert not verify(USER, KeyKind.USER, NONCE, signature)
    account = encode_public_key(KeyKind.ACCOUNT, bytes(SigningKey(SEED).verify_key))
    assert verify(account, KeyKind.ACCOUNT, NONCE, SIGNATURE)
    assert not verify(account, KeyKind.USER, NONCE, SIGNATURE), "the kind of key is checked before the signature"


def test_identities_are_fresh_keys_of_their_kind() -> None:
    """CVE-2023-46129: the curve key was once all zero."""
    one, other = new_identity("", 0), new_identity("", 0)
    assert is_public_key(one.id, KeyKind.SERVER)
    assert decode_public_key(one.xkey, KeyKind.CURVE) not in (None, bytes(32))
    assert one.id != other.id and one.xkey != other.xkey
