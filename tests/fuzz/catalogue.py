"""All targets, and what is known to begin with."""

from __future__ import annotations

from pathlib import Path

from fuzz import (
    archives,
    claims,
    gateways,
    leafs,
    meta,
    openid,
    packed,
    replicas,
    resealed,
    rows,
    schemas,
    sealed,
    stored,
    texts,
    transit,
    wires,
)
from fuzz.target import Target

CORPUS = Path(__file__).parents[1] / "fixtures" / "fuzz"
TARGETS = {
    target.name: target
    for group in (
        wires.TARGETS,
        leafs.TARGETS,
        gateways.TARGETS,
        stored.TARGETS,
        packed.TARGETS,
        schemas.TARGETS,
        sealed.TARGETS,
        resealed.TARGETS,
        transit.TARGETS,
        meta.TARGETS,
        replicas.TARGETS,
        rows.TARGETS,
        archives.TARGETS,
        texts.TARGETS,
        openid.TARGETS,
        claims.TARGETS,
    )
    for target in group
}


def corpus(name: str) -> list[bytes]:
    """What the fuzzing of a target has found worth keeping, a line each: what broke a promise once, or got far."""
    path = CORPUS / f"{name}.hex"
    return [bytes.fromhex(line) for line in path.read_text().splitlines()] if path.exists() else []


def known(target: Target) -> list[bytes]:
    """All inputs to begin with."""
    return [*target.seeds(), *corpus(target.name)]
