"""Secrets of object stores and catalogues are in no plan."""

from __future__ import annotations

import pytest

from slipstream.config.lake_secrets import location_problem, secret_property
from slipstream.spark.lake.base import LakeError
from slipstream.spark.lake.places import place_at
from support.config_loading import errors

SHOWN = [
    "az://tables/x?sv=1&sig=hidden",
    "https://account.blob.core.windows.net/tables/x?sig=hidden",
    "s3://key:hidden@bucket/x",
    "s3://hidden@bucket/x",
    "gs://bucket/x#hidden",
    "abfss://tables:hidden@account.dfs.core.windows.net/x",
]


@pytest.mark.parametrize("location", SHOWN)
def test_a_location_is_a_place_and_nothing_more(location: str) -> None:
    assert "belong into the environment" in location_problem(location)
    with pytest.raises(LakeError, match="belong into the environment") as told:
        place_at(location)
    assert "hidden" not in str(told.value)
    said = " ".join(errors(f'jetstream: enabled, lake {{ location: "{location}" }}'))
    assert "belong into the environment" in said and "hidden" not in said


@pytest.mark.parametrize(
    "location",
    ["/var/lib/tables?#", "lake@home", "s3://bucket/a@b", "abfss://tables@account.dfs.core.windows.net/x", "gs://b"],
)
def test_places(location: str) -> None:
    assert location_problem(location) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("s3.secret-access-key", "x"),
        ("adls.account-key", "x"),
        ("adls.sas-token", "x"),
        ("adls.connection-string", "x"),
        ("adls.client-secret", "x"),
        ("gcs.oauth2.token", "x"),
        ("header.Authorization", "Bearer x"),
        ("uri", "postgresql+psycopg2://user:hidden@catalogue/db"),
    ],
)
def test_properties_that_nobody_may_see(name: str, value: str) -> None:
    assert secret_property({"type": "sql", name: value}) == name
    block = f'location: x, format: iceberg, catalog {{ "{name}": "{value}" }}'
    said = " ".join(errors(f"jetstream: enabled, lake {{ {block} }}"))
    assert f"{name} is a secret" in said and "hidden" not in said


def test_properties_that_everybody_may_see() -> None:
    shown = {"uri": "sqlite:///catalog.db", "adls.account-name": "x", "s3.endpoint": "http://[::1]:9000", "a": "://["}
    assert secret_property({**shown, "b": "postgresql://user@catalogue/db", "warehouse": "s3://b/x"}) == ""
