"""The generated error table is current, complete and usable."""

import json
import pathlib
import string
import sys

import pytest

from slipstream import errors
from slipstream.jetstream import errors_table
from slipstream.jetstream.errors import TableError, invalid_config

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_generated_module_is_current() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import gen_errors
    finally:
        sys.path.pop(0)
    assert gen_errors.main(["--check"]) == 0


def test_every_number_is_unique_and_in_range() -> None:
    numbers = [spec.err_code for spec in errors_table.ALL_ERRORS]
    assert len(set(numbers)) == len(numbers)
    assert all(10_000 < number < 11_000 for number in numbers)
    assert {spec.code for spec in errors_table.ALL_ERRORS} == {400, 404, 409, 412, 429, 500, 503}


@pytest.mark.parametrize("spec", errors_table.ALL_ERRORS, ids=lambda spec: str(spec.err_code))
def test_every_text_can_be_filled(spec: errors_table.ErrorSpec) -> None:
    names = [name for _, name, _, _ in string.Formatter().parse(spec.text) if name]
    error = TableError(spec, **dict.fromkeys(names, "VALUE"))
    assert error.description.count("VALUE") == len(names)
    assert "{" not in error.description


def test_error_carries_the_fields_of_the_response() -> None:
    error = TableError(errors_table.STREAM_WRONG_LAST_SEQUENCE, seq=7)
    assert (error.code, error.err_code, error.description) == (400, 10071, "wrong last sequence: 7")
    assert isinstance(error, errors.ApiError)
    assert json.loads(json.dumps(str(error))) == "wrong last sequence: 7"


def test_config_errors_are_server_errors() -> None:
    assert (invalid_config("x").code, invalid_config("x").err_code) == (500, 10052)
