"""Throw-away keys of the tests, and how a client proves that it has one."""

from __future__ import annotations

import base64
import json

import nkeys  # type: ignore[import-untyped]  # the package ships no types

USER_SEED = b"SUAKRK3WO4QWY2Z6QKOWEGPQKTYIK3XUM5W7OTGOI533UFMTX6AX23IUUQ"
USER_KEY = "UA4JGB3DMBKF3KEDHPC7OSAH2KTJGU72UWHMAD5AI7XHFC2IPLGKFFOE"
OTHER_SEED = b"SUANQ4RA3IJVEHFZMV7RWJB7I2L6TALSC4MKWIGYGTWXG6RFQTKF5SBJ4U"
OTHER_KEY = "UDIA5TF6BZAGUZC5VVJQ5QJUY7WKCGH2DCAPRMWFEW6V6MYZYCMOKF3Z"

# Cost 4 keeps the tests quick.
BCRYPT_OF_OPEN_SESAME = "$2b$04$Mo2uFnMW0lSBb0db6JZ0wOJlF77uSCHiDBPY1vzobSyQvUwmFcdiq"
BCRYPT_OF_TOK = "$2b$04$jUFrU9tvbHyOEJLsaBoKe.nf/VU31JKdWM4YqYooGGxg7k1/zu2HK"


def nonce_of(info_line: bytes) -> str:
    """The nonce of a server's INFO line."""
    nonce = json.loads(info_line[len(b"INFO ") :].split(b"\r\n")[0])["nonce"]
    assert isinstance(nonce, str)
    return nonce


def signature(seed: bytes, text: str) -> bytes:
    """The raw signature of a text."""
    signed = nkeys.from_seed(bytearray(seed)).sign(text.encode())
    assert isinstance(signed, bytes)
    return signed


def url_base64(data: bytes) -> str:
    """Base64 as the clients send it: URL alphabet, no padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
