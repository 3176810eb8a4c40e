"""What the command line says about refusals of the JetStream API."""

from __future__ import annotations

import pytest

from slipstream.cli.link import ApiRefusal


@pytest.mark.parametrize(
    ("verb", "named"),
    [
        ("STREAM.INFO.A", "A"),
        ("STREAM.MSG.DELETE.A", "A"),
        ("STREAM.MSG.GET.MSG", "MSG"),
        ("STREAM.DELETE.DURABLE", "DURABLE"),
        ("CONSUMER.INFO.A.C", "A > C"),
        ("CONSUMER.DURABLE.CREATE.A.C", "A > C"),
        ("CONSUMER.MSG.NEXT.A.C", "A > C"),
    ],
)
def test_what_is_missing_is_named(verb: str, named: str) -> None:
    refusal = ApiRefusal({"code": 404, "err_code": 10059, "description": "stream not found"})
    assert str(refusal.about(verb)) == f"stream not found (10059): {named}"


def test_other_refusals_stay_as_they_are() -> None:
    refusal = ApiRefusal({"code": 400, "err_code": 10025, "description": "bad request"})
    assert str(refusal.about("STREAM.INFO.A")) == "bad request (10025)"
    nameless = ApiRefusal({"code": 404, "err_code": 10059, "description": "stream not found"})
    assert str(nameless.about("STREAM.NAMES")) == "stream not found (10059)"
