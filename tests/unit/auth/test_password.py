"""Passwords: plain at once, bcrypt as a job, the empty one never."""

import bcrypt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.auth.password import BcryptCheck, check, is_bcrypt

HASH = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(4)).decode()


@pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2x$", "$2y$"])
def test_bcrypt_is_recognised_and_compared_by_a_job(prefix: str) -> None:
    stored = prefix + HASH[4:]
    assert is_bcrypt(stored)
    right, wrong = check(stored, "s3cret"), check(stored, "guess")
    assert isinstance(right, BcryptCheck) and isinstance(wrong, BcryptCheck)
    assert right() and not wrong()


@pytest.mark.parametrize(
    "stored", ["", "$", "$2", "$2a$", "$2a$1", "$2a$1x$", "$2c$11$", "$1a$11$", "2a$11$", "$2a$\u0661\u0661$"]
)
def test_what_is_not_bcrypt_is_compared_as_it_stands(stored: str) -> None:
    assert not is_bcrypt(stored)
    assert check(stored, stored) is bool(stored)


def test_a_damaged_hash_lets_nobody_in() -> None:
    for stored in ("$2a$11$", "$2a$99$" + HASH[7:], "$2a$04$short", HASH[:-1]):
        job = check(stored, "s3cret")
        assert isinstance(job, BcryptCheck) and not job()


def test_bcrypt_looks_at_72_bytes_and_longer_passwords_are_no_error() -> None:
    stored = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
    for given_password, expected in (("x" * 72, True), ("x" * 100, True), ("x" * 71, False), ("y" * 5000, False)):
        job = check(stored, given_password)
        assert isinstance(job, BcryptCheck) and job() is expected


def test_the_empty_password_never_matches() -> None:
    """A user without a password must not be open to everybody (certificate users were, by name, in nats-server)."""
    empty_hash = bcrypt.hashpw(b"", bcrypt.gensalt(4)).decode()
    assert check("", "") is False
    assert check("", "x") is False
    assert check("x", "") is False
    assert check(empty_hash, "") is False


@given(stored=st.text(min_size=1), given_password=st.text(min_size=1))
def test_plain_values_match_when_equal(stored: str, given_password: str) -> None:
    if not is_bcrypt(stored):
        assert check(stored, given_password) is (stored == given_password)
        assert check(stored, stored) is True


def test_lone_surrogates_compare_and_do_not_raise() -> None:
    assert check("a", "\ud800") is False
    job = check(HASH, "\ud800")
    assert isinstance(job, BcryptCheck) and not job()


def test_a_job_does_not_show_its_secrets() -> None:
    assert "s3cret" not in repr(check(HASH, "s3cret"))
