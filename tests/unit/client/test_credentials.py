"""Seeds and credentials files: what is read, what is signed, what is refused."""

from __future__ import annotations

import pytest

from slipstream.client.credentials import read_credentials, read_seed
from slipstream.client.options import ClientError
from support.keys import OTHER_SEED, USER_KEY, USER_SEED, signature, url_base64

SEED = USER_SEED.decode()
CREDENTIALS = f"""-----BEGIN NATS USER JWT-----
ey.some.jwt
------END NATS USER JWT------

************************* IMPORTANT *************************

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------
"""


def test_a_seed_signs_as_the_official_library_does() -> None:
    key = read_seed(f"# comment\n{SEED}\n")
    assert key.public == USER_KEY
    assert key.sign("nonce") == url_base64(signature(USER_SEED, "nonce"))
    assert key.sign("nonce") != url_base64(signature(OTHER_SEED, "nonce"))


def test_a_credentials_file_has_both_parts() -> None:
    key = read_credentials(CREDENTIALS)
    assert (key.public, key.jwt) == (USER_KEY, "ey.some.jwt")


@pytest.mark.parametrize("text", ["", "SU", SEED[:-1] + "A", SEED[:10] + "B" + SEED[11:], "SO" + SEED[2:]])
def test_what_is_no_seed_is_refused(text: str) -> None:
    with pytest.raises(ClientError):
        read_seed(text)


@pytest.mark.parametrize("part", ["NATS USER JWT", "USER NKEY SEED"])
def test_half_a_credentials_file_is_refused(part: str) -> None:
    with pytest.raises(ClientError):
        read_credentials(CREDENTIALS.replace(part, "OTHER THING"))


def test_secrets_are_not_shown() -> None:
    assert repr(read_seed(SEED).seed) not in repr(read_seed(SEED))
